"""JSON files: the data are what Python's own reader gives, and every field knows its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_opt.errors import InputError
from prfaas_opt.io.json_file import LARGEST_BYTES, parse_json_document, read_json_document

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> set[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path}.union(*(paths(item, (*path, key)) for key, item in inner))


@given(VALUES, st.booleans())
def test_data_are_those_of_the_json_module_and_every_field_has_a_line(value: Any, ascii_only: bool) -> None:
    document = parse_json_document(json.dumps(value, indent=1, ensure_ascii=ascii_only), "x.json")
    assert document.data == value
    assert document.lines.keys() == paths(value)
    assert document.problems == ()


def test_lines_are_those_of_the_keys() -> None:
    text = '{"a": 1,\n "b": {"c\\n": [\n 1, {"d":\n 2}]},\n\n "e": "x,y:{[\\"\\\\"}'
    assert parse_json_document(text, "x.json").lines == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", "c\n"): 2,
        ("b", "c\n", 0): 3,
        ("b", "c\n", 1): 3,
        ("b", "c\n", 1, "d"): 3,
        ("e",): 6,
    }


def test_a_key_that_stands_twice_in_one_mapping_is_a_problem_of_the_second() -> None:
    document = parse_json_document('{"a": {"b": 1},\n"c": {"b": 1,\n"b": 2}}', "x.json")
    assert document.data["c"] == {"b": 2}
    (problem,) = document.problems
    assert (problem.code, problem.where) == ("duplicate-key", "x.json:3 c.b")
    assert "first on line 2" in problem.message


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ('{"a": 1,}', "x.json:1", "column"),
        ('{"a":\n1', "x.json:2", "ends too early"),
        ('{"a": 1} {"b": 2}', "x.json:1", "extra data"),
        ("{'a': 1}", "x.json:1", "double quotes"),
    ],
)
def test_what_is_no_json_is_placed(text: str, where: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json_document(text, "x.json")
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == ("not-json", where)
    assert message in problem.message


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json_document(path, "config.json").data == {"a": 1}


def test_a_file_of_weights_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        read_json_document(path, "config.json")
