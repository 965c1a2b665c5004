"""Markdown: a table of all rows with the inputs and the main figures, to be read by people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prfaas_opt.study.outputs import Format
from prfaas_opt.study.outputs.unfinished import UnfinishedFile, writable

if TYPE_CHECKING:
    import pyarrow as pa

_FIGURES = (
    "status",
    "throughput_rps",
    "served_rps",
    "ratio",
    "threshold_tokens",
    "offload_share",
    "instances.prfaas",
    "instances.pd_prefill",
    "instances.pd_decode",
    "bottlenecks",
    "egress_gbps",
    "ttft_s.mean",
    "ttft_s.p90",
    "cost.usd_per_hour",
    "cost.usd_per_thousand_requests",
    "error_where",
    "error",
)
"""What a reader wants to know first, in this order, after the row, its name and its inputs."""
_MARKUP = re.compile(r"([\\`*_\[\]<>|~#&])")


class MarkdownFile:
    """Writes a Markdown table."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        inputs = [name for name in schema.names if name.startswith(("input.", "extra."))]
        self._names = [name for name in ("row", "name", *inputs, *_FIGURES) if name in schema.names]
        self._file = UnfinishedFile(path)
        numeric = [str(schema.field(name).type) != "string" for name in self._names]
        self._line([_cell(name.removeprefix("input.").removeprefix("extra.")) for name in self._names])
        self._line(["---:" if each else "---" for each in numeric])

    def _line(self, cells: list[str]) -> None:
        with writable(self._file.path):
            self._file.stream.write(f"| {' | '.join(cells)} |\n".encode())

    def write(self, table: pa.Table) -> None:
        """Adds rows."""
        columns = [table.column(name).to_pylist() for name in self._names]
        for values in zip(*columns, strict=True):
            self._line([_cell(value) for value in values])

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._file.finish()

    def abort(self) -> None:
        """Leaves nothing of the file."""
        self._file.discard()


def _cell(value: Any) -> str:
    """A value in a table's cell: figures to four digits, texts as they are, whatever is in them."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    if isinstance(value, int):
        return str(value)
    return _MARKUP.sub(r"\\\1", " ".join(str(value).split()))


FORMAT = Format(".md", "Markdown", MarkdownFile)
