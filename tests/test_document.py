"""Documents: where each value stands, what YAML texts mean, and what overrides change."""

from __future__ import annotations

import math
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import DEEPEST, UNREADABLE, Document, dotted, plain_document
from prfaas_opt.io.overrides import apply_overrides
from prfaas_opt.io.yaml_file import parse_document, read_document


def only(problems: tuple[Problem, ...]) -> Problem:
    (problem,) = problems
    return problem


def refusal(text: str) -> Problem:
    with pytest.raises(InputError) as caught:
        parse_document(text, "f.yaml")
    return only(caught.value.problems)


TEXT = """\
name: a fleet
clusters:
  pd:
    role: pd

    instances: 8
links:
  - {from: a,
     to: b}
  - from: c
"""


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ((), "f.yaml:1"),
        (("name",), "f.yaml:1 name"),
        (("clusters", "pd"), "f.yaml:3 clusters.pd"),
        (("clusters", "pd", "instances"), "f.yaml:6 clusters.pd.instances"),
        (("links", 0, "to"), "f.yaml:9 links[0].to"),
        (("links", 1), "f.yaml:10 links[1]"),
        (("links", 1, "to"), "f.yaml:10 links[1].to"),
        (("slo", "tokens_per_s"), "f.yaml:1 slo.tokens_per_s"),
    ],
)
def test_places(path: tuple[str | int, ...], where: str) -> None:
    assert parse_document(TEXT, "f.yaml").where(path) == where


def test_a_place_without_lines() -> None:
    assert Document("scenario", {}).where(("links", 0)) == "scenario links[0]"
    assert Document("scenario", {}).where() == "scenario"


def test_paths_show_what_no_terminal_can() -> None:
    assert dotted(("a\nb", "", 2)) == 'a\\nb.""[2]'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("1.3004e-4", 1.3004e-4),
        ("40.", 40.0),
        (".5", 0.5),
        ("+3", 3),
        ("-3", -3),
        ("010", 10),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("1,000", "1,000"),
        ("0x10", "0x10"),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("No", "No"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("", None),
        ("2024-01-31", "2024-01-31"),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("=", "="),
        ("100Gbps", "100Gbps"),
        ("12.5GB/s", "12.5GB/s"),
        ("'8'", "8"),
        ("!!str 8", "8"),
        ("!!int '8'", 8),
        ("!!float 8", 8.0),
        ("[1, [2]]", [1, [2]]),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    found = parse_document(f"a: {text}\n", "f.yaml").data["a"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_read_as_such() -> None:
    assert math.isnan(parse_document("a: .nan\n", "f.yaml").data["a"])


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n"])
def test_nothing(text: str) -> None:
    assert parse_document(text, "f.yaml").data is None


def test_keys_are_texts() -> None:
    assert parse_document("1: a\ntrue: b\nnull: c\n1.5: d\n", "f.yaml").data == {
        "1": "a",
        "true": "b",
        "null": "c",
        "1.5": "d",
    }


def test_aliases_have_places_and_data_of_their_own() -> None:
    document = parse_document("a: &x {n: 1}\nb:\n  *x\n", "f.yaml")
    assert document.data == {"a": {"n": 1}, "b": {"n": 1}}
    assert document.data["a"] is not document.data["b"]
    assert document.where(("b", "n")) == "f.yaml:1 b.n"
    changed = apply_overrides(document, {"b.n": "2"})
    assert changed.data == {"a": {"n": 1}, "b": {"n": 2}}


def test_merge_keys() -> None:
    document = parse_document(
        "base: &a {x: 1, y: 1}\nmore: &b {y: 2, z: 2}\nhere:\n  <<: [*a, *b]\n  x: 0\nquoted: {'<<': 5}\n", "f.yaml"
    )
    assert document.data["here"] == {"x": 0, "y": 1, "z": 2}
    assert document.where(("here", "x")) == "f.yaml:5 here.x"
    assert document.where(("here", "z")) == "f.yaml:2 here.z"
    assert document.data["quoted"] == {"<<": 5}
    assert not document.problems


def test_a_mapping_that_merges_itself() -> None:
    document = parse_document("a: &a\n  <<: *a\n  b: 1\n", "f.yaml")
    assert only(document.problems).code == "wrong-type"


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate-key", "f.yaml:3 a"),
        ("a: {b: 1, b: 1}\n", "duplicate-key", "f.yaml:1 a.b"),
        ("1: a\n'1': b\n", "duplicate-key", "f.yaml:2 1"),
        ("a: !x 1\n", "not-supported", "f.yaml:1 a"),
        ("a: !!set {b}\n", "not-supported", "f.yaml:1 a"),
        ("a: !!binary aGk=\n", "not-supported", "f.yaml:1 a"),
        ("a: !!int b\n", "wrong-type", "f.yaml:1 a"),
        ("a: !!bool yes\n", "wrong-type", "f.yaml:1 a"),
        ("a:\n  ? [b]\n  : 1\n", "wrong-type", "f.yaml:2 a.?"),
        ("a: &a [*a]\n", "not-yaml", "f.yaml:1 a[0]"),
    ],
)
def test_what_is_wrong_whatever_the_fields_mean(text: str, code: str, where: str) -> None:
    problem = only(parse_document(text, "f.yaml").problems)
    assert (problem.code, problem.where) == (code, where)


def test_the_first_of_two_equal_keys_is_kept() -> None:
    assert parse_document("a: 1\na: 2\n", "f.yaml").data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("a:\n\tb: 1\n", "f.yaml:2", "is indented with a tab"),
        ("a: b: c\n", "f.yaml:1", "mapping values"),
        ("a: [1\nb: 2\n", "f.yaml:2", "from line 1"),
        ('a: 1\nb: "c\nd: 1\n', "f.yaml:2", "opens a quote that is never closed"),
        ("a: @b\n", "f.yaml:1", "no text starts with @"),
        ("a: `b`\n", "f.yaml:1", "no text starts with `"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2", "a second document"),
        ("a: 1\nb: *c\n", "f.yaml:2", "an anchor that is not defined"),
        ("a: \x07\n", "f.yaml:1", "U+0007"),
        ("a: 1\nb: \udc80\n", "f.yaml:2", "U+DC80"),
        ("a: " + "[" * 100 + "]" * 100, "f.yaml:1", "nested deeper"),
    ],
)
def test_not_yaml(text: str, where: str, says: str) -> None:
    problem = refusal(text)
    assert problem.where == where
    assert says in problem.message
    assert problem.fix


def test_anchors_cannot_blow_up() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "once its anchors are followed" in refusal("\n".join(lines)).message


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: caf\xc3\xa9\r\n")
    document = read_document(path, "scenario")
    assert document.data == {"a": 1, "b": "café"}
    assert (document.where(("b",)), document.folder) == (f"{path}:2 b", tmp_path)


@pytest.mark.parametrize(
    ("raw", "line", "says"),
    [
        (b"a: 1\nb: caf\xe9\n", 2, "the byte 0xe9"),
        ("a: 1\n".encode("utf-16"), 1, "UTF-16"),
        (b"\x89PNG\r\n\x1a\n\0\0", 1, "not a text file"),
        (b"a: 1\nb: \0\n", 2, "U+0000"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, raw: bytes, line: int, says: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        read_document(path, "scenario")
    problem = only(caught.value.problems)
    assert problem.where == f"{path}:{line}"
    assert says in problem.message


@pytest.mark.parametrize(
    ("name", "code"), [("none.yaml", "missing-file"), (".", "missing-file"), ("x" * 5000, "unreadable-file")]
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, code: str) -> None:
    with pytest.raises(InputError) as caught:
        read_document(tmp_path / name, "scenario")
    assert only(caught.value.problems).code == code


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_rights(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.touch(mode=0)
    with pytest.raises(InputError, match="Permission denied"):
        read_document(path, "scenario")


def test_plain_data_from_python_objects() -> None:
    data = {
        "numpy": np.array([1, 2]),
        "scalar": np.float64(0.5),
        "count": np.int64(3),
        "flag": np.bool_(True),
        "tuple": ("a", None),
        "proxy": MappingProxyType({1: 2}),
        "path": Path("a/b.yaml"),
        "text": "x",
    }
    document = plain_document(data, "scenario")
    assert document.data == {
        "numpy": [1, 2],
        "scalar": 0.5,
        "count": 3,
        "flag": True,
        "tuple": ["a", None],
        "proxy": {"1": 2},
        "path": "a/b.yaml",
        "text": "x",
    }
    assert not document.problems
    assert all(type(v).__module__ == "builtins" for v in document.data.values())


@pytest.mark.parametrize("value", [Decimal(1), Fraction(1, 2), b"x", object(), {1}, lambda: 0])
def test_other_python_objects_are_refused(value: Any) -> None:
    document = plain_document({"a": [value]}, "scenario")
    assert document.data == {"a": [UNREADABLE]}
    problem = only(document.problems)
    assert (problem.code, problem.where) == ("wrong-type", "scenario a[0]")
    assert type(value).__name__ in problem.message


def test_python_keys() -> None:
    document = plain_document({2: "a", "2": "b", None: "c", True: "d"}, "scenario")
    assert document.data == {"2": "a"}
    assert sorted(problem.code for problem in document.problems) == ["duplicate-key", "wrong-type", "wrong-type"]


def test_python_cycles_and_depth() -> None:
    cycle: list[Any] = [1]
    cycle += [cycle, cycle]
    assert [p.where for p in plain_document({"a": cycle}, "s").problems] == ["s a[1]", "s a[2]"]
    deep: list[Any] = []
    for _ in range(DEEPEST + 1):
        deep = [deep]
    assert "nested deeper" in only(plain_document(deep, "s").problems).message


def test_overrides_change_a_copy() -> None:
    document = parse_document(TEXT, "f.yaml")
    changed = apply_overrides(document, {"clusters.pd.instances": "10", "links[1]": "{from: d, to: e}", "slo.x.y": "z"})
    assert document.data["clusters"]["pd"]["instances"] == 8
    assert changed.data["clusters"]["pd"] == {"role": "pd", "instances": 10}
    assert changed.data["links"][1] == {"from": "d", "to": "e"}
    assert changed.data["slo"] == {"x": {"y": "z"}}


def test_an_override_fills_a_mapping_that_is_empty() -> None:
    for text in ("slo:\n", "slo: {}\n", "a: 1\n"):
        changed = apply_overrides(parse_document(text, "f.yaml"), {"slo.rate": "1"})
        assert changed.data["slo"] == {"rate": 1}


def test_overridden_fields_stand_in_the_override() -> None:
    changed = apply_overrides(parse_document(TEXT, "f.yaml"), {"links.0": "{from: x}", "slo.rate": "1"})
    assert changed.where(("links", 0, "from")) == "--set links[0].from"
    assert changed.where(("slo", "rate")) == "--set slo.rate"
    assert changed.where(("slo",)) == "--set slo"
    assert changed.where(("links", 1, "from")) == "f.yaml:10 links[1].from"
    assert changed.where(("name",)) == "f.yaml:1 name"


def test_a_number_steps_into_a_list_and_names_a_key_of_a_mapping() -> None:
    document = parse_document("a: {1: x}\nb: [y]\n", "f.yaml")
    assert apply_overrides(document, {"a.1": "p", "b.0": "q"}).data == {"a": {"1": "p"}, "b": ["q"]}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("", "1", "not the path"),
        ("a..b", "1", "not the path"),
        (".a", "1", "not the path"),
        ("a.", "1", "not the path"),
        ("links[0", "1", "not the path"),
        ("links.2.to", "1", "has no 2"),
        ("links.-1", "1", "has no -1"),
        ("links.to", "1", "has no to"),
        ("links.²", "1", "has no ²"),
        ("links." + "9" * 5000, "1", "has no 9"),
        ("name.x", "1", 'name is "a fleet"'),
        ("clusters.pd.role.x.y", "1", "has no fields"),
        ("name", "[1", "is not YAML"),
        ("name", "a: b: c", "is not YAML"),
        ("name", "{a: 1, a: 2}", "stands twice"),
        ("name", "!x y", "carries the tag"),
    ],
)
def test_overrides_that_do_not_fit(path: str, value: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        apply_overrides(parse_document(TEXT, "f.yaml"), {path: value})
    problem = only(caught.value.problems)
    assert problem.where == f"--set {path}".strip()
    assert says in problem.message


def test_all_overrides_that_do_not_fit_come_at_once() -> None:
    with pytest.raises(InputError) as caught:
        apply_overrides(parse_document(TEXT, "f.yaml"), {"name": "[", "links.9": "1", "clusters.pd.instances": "3"})
    assert [problem.where for problem in caught.value.problems] == ["--set name", "--set links.9"]


@pytest.mark.parametrize("text", ["", "- a\n", "text\n"])
def test_overrides_leave_what_is_no_mapping(text: str) -> None:
    document = parse_document(text, "f.yaml")
    assert apply_overrides(document, {"a.b": "1"}).data == document.data
