"""Files of results, made up and made by a study, for the tests of reports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from prfaas_opt.study_api import run_study

Row = dict[str, Any]
BANDWIDTH = "links.0.bandwidth_gbps"

NUMBERS: dict[str, pa.DataType] = {
    "served_rps": pa.float64(),
    "cost.usd_per_thousand_requests": pa.float64(),
    "ttft_s.p90": pa.float64(),
    "egress_gbps": pa.float64(),
    "ratio": pa.float64(),
    "cost.ratio": pa.float64(),
    "offload_share": pa.float64(),
    f"input.{BANDWIDTH}": pa.float64(),
    "input.clusters.pd.instances": pa.int64(),
}


def results(path: Path, rows: Sequence[Row], metadata: dict[str, str] | None = None) -> Path:
    """A file of results with a few columns; what a row does not have is null."""
    texts = {"status": "optimal", "bottlenecks": "egress", "name": "base", "input.model": "m"}
    columns: dict[str, pa.Array[Any]] = {"row": pa.array([row.get("row", i) for i, row in enumerate(rows)], pa.int64())}
    for name, default in texts.items():
        columns[name] = pa.array([row.get(name, default) for row in rows], pa.string())
    for name, kind in NUMBERS.items():
        columns[name] = pa.array([row.get(name) for row in rows], kind)
    table = pa.table(columns).replace_schema_metadata({"schema_version": "1", "study": "t", **(metadata or {})})
    pq.write_table(table, path, row_group_size=7)
    return path


def small_study(folder: Path) -> Path:
    """A folder with a study and its results in each format."""
    axes = {
        "model": ["internal-1t", "minimax-m2.5", "kimi-k2.5"],
        "links.0.bandwidth": ["1Gbps", "10Gbps", "100Gbps"],
        "clusters.prfaas.price_per_gpu_hour": [1, 8],
    }
    base = {"clusters.pd.price_per_gpu_hour": 1, "baseline.hardware": "H20", "baseline.instances": 12}
    definition = {"name": "a study", "set": base, "axes": [{"grid": axes}]}
    (folder / "study.yaml").write_text(json.dumps(definition).replace('"', ""), encoding="utf-8")
    for suffix in ("parquet", "csv", "jsonl"):
        run_study(folder / "study.yaml", folder / f"out.{suffix}")
    return folder
