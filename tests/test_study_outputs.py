"""Files of results: what was written comes back, the same bytes every time, and no spreadsheet program runs a text."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prfaas_opt.errors import InputError
from prfaas_opt.study.chunks import plan_chunk
from prfaas_opt.study.columns import schema_named, schema_of
from prfaas_opt.study.outputs import Format, check_output, formats, register, writer_for
from prfaas_opt.study.outputs.parquet_file import ROW_GROUP
from prfaas_opt.study.outputs.reading import read_in_parts, read_results
from prfaas_opt.study.rows import UNSET
from tests.studies import written
from tests.study_rows import ListedRows

READABLE = sorted(suffix for suffix, found in formats().items() if found.read)
OWN = [".csv", ".jsonl", ".md", ".parquet"]

DANGEROUS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "''=1", "=cmd|' /C calc'!A0", "-", "="]
HARMLESS = ["", " ", "'tis", "a=1", "1", "null", "NaN", '"', 'a"b', "a,b", "a\nb", "a\r\nb", "|", "ü\u2028€", "'", "\\"]

ROWS = ListedRows(
    ("links.0.bandwidth", "clusters.pd.instances", "model", "slo.ttft.p90", "name"),
    [
        ("33.3Gbps", 6, "internal-1t", UNSET, "=1+1"),
        ("fast", 0, "internal-1t", UNSET, "a | b"),
        (UNSET, 8, UNSET, "12s", "x\ny"),
        ("1Gbps", 2, "-no", UNSET, UNSET),
    ],
    extra_columns=("Owner", "=Note"),
    cells=[("=a", None), ("", "'"), (None, "@x"), ("z", "\t")],
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return plan_chunk(ROWS, 0, len(ROWS))


def test_there_are_formats() -> None:
    assert set(OWN) <= set(formats())
    assert {".csv", ".jsonl", ".parquet"} <= set(READABLE)
    for suffix, found in formats().items():
        assert found.suffix == suffix == suffix.lower()
        assert found.name


@pytest.mark.parametrize("suffix", READABLE)
def test_what_was_written_comes_back(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    path = written(tmp_path / f"out{suffix}", table)
    back = read_results(path)
    assert back.schema.equals(table.schema)
    assert back.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("suffix", READABLE)
def test_columns_come_back_in_the_order_that_they_are_asked_for(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    path = written(tmp_path / f"out{suffix}", table)
    names = ["throughput_rps", "extra.Owner", "input.links.0.bandwidth_gbps", "terms", "row"]
    back = read_results(path, names)
    assert back.schema.names == names
    assert back.to_pylist() == table.select(names).to_pylist()


@pytest.mark.parametrize("suffix", OWN)
def test_bytes_are_the_same_whatever_the_parts(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    whole = written(tmp_path / f"whole{suffix}", table)
    parts = written(tmp_path / f"parts{suffix}", table.slice(0, 1), table.slice(1, 0), table.slice(1, 3))
    assert whole.read_bytes() == parts.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted([whole.name, parts.name])


TEXTS = st.one_of(st.none(), st.sampled_from(DANGEROUS + HARMLESS), st.text(max_size=8))
NUMBERS = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
INTEGERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))


@pytest.mark.parametrize("suffix", READABLE)
@settings(max_examples=60)
@given(rows=st.lists(st.tuples(TEXTS, NUMBERS, INTEGERS), min_size=1, max_size=8))
def test_any_values_come_back(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, rows: list[tuple[Any, ...]]
) -> None:
    schema = schema_named(["extra.text", "throughput_rps", "threshold_tokens"])
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    table = pa.Table.from_arrays(columns, schema=schema)
    path = written(tmp_path_factory.mktemp("any") / f"out{suffix}", table)
    # Minus zero is zero to ==, and not to repr.
    assert repr(read_results(path).to_pylist()) == repr(table.to_pylist())


def test_no_cell_of_a_csv_file_begins_like_a_formula(tmp_path: Path) -> None:
    schema = schema_named(["extra.text", "name"])
    texts = DANGEROUS + HARMLESS
    table = pa.Table.from_arrays([pa.array(texts), pa.array(texts)], schema=schema)
    path = written(tmp_path / "out.csv", table)
    with path.open(encoding="utf-8", newline="") as file:
        header, *cells = csv.reader(file)
    assert header == ["extra.text", "name"]
    assert [row[0] for row in cells] == [f"'{text}" if text in DANGEROUS else text for text in texts]
    assert not [cell for row in cells for cell in row if cell[:1] in set("=+-@\t\r\n")]


def test_csv_is_rfc_4180_with_numbers_at_full_precision(tmp_path: Path, table: pa.Table) -> None:
    raw = written(tmp_path / "out.csv", table).read_bytes()
    assert raw.endswith(b"\r\n")
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert float(rows[0]["throughput_rps"]) == table.column("throughput_rps")[0].as_py()
    assert rows[1]["throughput_rps"] == ""
    assert rows[0]["name"] == "'=1+1"


def test_json_lines_are_flat_with_json_inside_as_json(tmp_path: Path, table: pa.Table) -> None:
    lines = written(tmp_path / "out.jsonl", table).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [list(row) for row in rows] == [table.schema.names] * 4
    assert rows[0]["terms"][0]["name"] == "arrivals"
    assert rows[1]["inputs_as_given"] == {"links.0.bandwidth": "fast", "clusters.pd.instances": 0}
    assert rows[1]["throughput_rps"] is None


def test_markdown_is_one_table_whatever_the_texts(tmp_path: Path, table: pa.Table) -> None:
    text = written(tmp_path / "out.md", table).read_text(encoding="utf-8")
    header, rule, *rows = text.splitlines()
    assert len(rows) == 4
    cells = [line.replace(r"\|", "").count("|") for line in (header, rule, *rows)]
    assert set(cells) == {cells[0]}
    assert rows[1].startswith(r"| 1 | a \| b |")
    assert rows[2].startswith("| 2 | x y | 100 | 8 |")


def test_row_groups_are_of_one_size(tmp_path: Path) -> None:
    schema = schema_named(["row"])
    table = pa.Table.from_arrays([pa.array(range(2 * ROW_GROUP + 5))], schema=schema)
    parts = [table.slice(start, 1000) for start in range(0, len(table), 1000)]
    path = written(tmp_path / "out.parquet", *parts)
    with pq.ParquetFile(path) as file:
        assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [ROW_GROUP, ROW_GROUP, 5]
    assert [len(part) for part in read_in_parts(path)] == [ROW_GROUP, ROW_GROUP, 5]
    assert read_results(path).equals(table)


def test_parquet_keeps_units_and_where_it_comes_from(tmp_path: Path, table: pa.Table) -> None:
    path = written(tmp_path / "out.parquet", table)
    assert read_results(path).schema.equals(schema_of(ROWS), check_metadata=True)


@pytest.mark.parametrize("suffix", OWN)
def test_an_aborted_file_leaves_nothing(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    path.write_text("before")
    writer = writer_for(path, table.schema)
    writer.write(table)
    writer.abort()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "before"


@pytest.mark.parametrize("suffix", OWN)
def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        writer_for(tmp_path / "no" / f"out{suffix}", table.schema)


@pytest.mark.parametrize("name", ["out", "out.parqet", "out.doc", "out.csv.gz"])
def test_a_suffix_that_nobody_knows_is_an_error_that_lists_those_known(table: pa.Table, name: str) -> None:
    with pytest.raises(InputError) as caught:
        writer_for(Path(name), table.schema)
    (problem,) = caught.value.problems
    assert problem.code == "unknown-format"
    assert all(suffix in problem.message for suffix in OWN)
    assert ("did you mean .parquet?" in problem.fix) == (name == "out.parqet")


def test_a_format_of_another_package_is_found_and_its_limit_told_up_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prfaas_opt.study.outputs._registered", {})
    register(Format(".tiny", "tiny", lambda _path, _schema: pytest.fail("not opened"), most_rows=2))
    check_output(Path("x.tiny"), 2)
    check_output(Path("X.TINY"))
    with pytest.raises(InputError, match="at most 2 rows, and the study has 3"):
        check_output(Path("x.tiny"), 3)


@pytest.mark.parametrize("suffix", READABLE)
def test_what_is_no_file_of_results_is_an_error(tmp_path: Path, table: pa.Table, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    with pytest.raises(InputError, match="there is no such file of results"):
        read_results(path)
    for content in (b"", b"\xff\xfe\x00 no results \x00", b'{"row": "x"}\n', b'row,name\nx,"y\n'):
        path.write_bytes(content)
        with pytest.raises(InputError):
            read_results(path)
    written(path, table)
    with pytest.raises(InputError, match="did you mean throughput_rps") as caught:
        read_results(path, ["troughput_rps"])
    assert caught.value.problems[0].code == "unknown-name"


def test_markdown_cannot_be_read_back(tmp_path: Path, table: pa.Table) -> None:
    with pytest.raises(InputError, match="cannot be read back, expected one of"):
        read_results(written(tmp_path / "out.md", table))
