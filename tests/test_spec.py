"""Field specifications: what each kind takes, what it says of anything else, and its JSON Schema."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import UNREADABLE, Document
from prfaas_opt.io.model_file import MODEL
from prfaas_opt.io.overrides import apply_overrides
from prfaas_opt.io.scalars import BANDWIDTH, CEILING, COUNT, NOT_NEGATIVE, POSITIVE, TOKENS, Choice, Number, Text
from prfaas_opt.io.scenario_file import CASE_STUDY, SCENARIO
from prfaas_opt.io.spec import (
    INVALID,
    Context,
    Either,
    Field,
    Kind,
    ListOf,
    MapOf,
    OneOrMore,
    Record,
    Tagged,
    Variants,
    read_whole,
    same_length,
)
from prfaas_opt.io.workload_file import WORKLOAD
from prfaas_opt.io.yaml_file import read_document

ROOT = Path(__file__).parents[1]
POINT = Record({"x": Field(POSITIVE, "abscissa"), "label": Field(Text(), "words", "none")})
SHAPE = Tagged(
    "shape", {"circle": Record({"radius": Field(POSITIVE, "r")}), "square": Record({"side": Field(POSITIVE, "a")})}
)
SIZE = Variants({"metres": Record({"metres": Field(POSITIVE, "m")}), "feet": Record({"feet": Field(POSITIVE, "ft")})})


def read(kind: Kind, value: Any) -> tuple[Any, list[Problem]]:
    context = Context(Document("f", {"a": value}))
    return kind.read(context, value, ("a",)), context.problems


def refusal(kind: Kind, value: Any) -> Problem:
    found, problems = read(kind, value)
    assert found is INVALID
    (problem,) = problems
    return problem


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (Text(), "x", "x"),
        (Text(), " x ", "x"),
        (Text(), 70, "70"),
        (Text(), "two\nlines", "two\nlines"),
        (Choice(("a", "b")), "b", "b"),
        (POSITIVE, 2, 2.0),
        (NOT_NEGATIVE, 0, 0.0),
        (CEILING, 1, 1.0),
        (COUNT, 8.0, 8),
        (Number("ms", factor=0.001), 25, 0.025),
        (TOKENS, "32K", 32768),
        (TOKENS, 1, 1),
        (TOKENS, "16M", 2**24),
        (BANDWIDTH, "8Gbps", 1e9),
        (BANDWIDTH, 0, 0.0),
        (BANDWIDTH, "1bps", 0.125),
        (ListOf(COUNT), [1, 2], (1, 2)),
        (ListOf(COUNT, least=0), [], ()),
        (OneOrMore(ListOf(COUNT)), 3, (3,)),
        (OneOrMore(ListOf(COUNT)), [3, 4], (3, 4)),
        (MapOf(COUNT), {"x": 1}, {"x": 1}),
        (POINT, {"x": 1}, {"x": 1.0, "label": "none"}),
        (SHAPE, {"shape": "square", "side": 2}, {"side": 2.0}),
        (SIZE, {"feet": 3}, {"feet": 3.0}),
        (Either(TOKENS, POINT), "1K", 1024),
        (Either(TOKENS, POINT), {"x": 1}, {"x": 1.0, "label": "none"}),
    ],
)
def test_what_is_taken(kind: Kind, value: Any, wanted: Any) -> None:
    found, problems = read(kind, value)
    assert problems == []
    assert found == wanted
    assert type(found) is type(wanted)
    jsonschema.validate(value, kind.schema())


@pytest.mark.parametrize(
    ("kind", "value", "code", "says", "fix"),
    [
        (Text(), "", "wrong-type", "found an empty text, expected a text", ""),
        (Text(), True, "wrong-type", "found true, expected a text", 'put it in quotes: "true"'),
        (Text(), 2.5, "wrong-type", "found 2.5, expected a text", 'put it in quotes: "2.5"'),
        (Text(), ["a"], "wrong-type", "found a list of 1, expected a text", ""),
        (Text(), "a\x1b", "bad-text", 'found "a\\x1b", expected no control characters', "type it anew"),
        (Choice(("a", "bcd")), "bdc", "unknown-word", 'found "bdc", expected one of a, bcd', "did you mean bcd?"),
        (Choice(("a", "bcd")), "A", "unknown-word", 'found "A", expected one of a, bcd', "did you mean a?"),
        (Choice(("a", "b")), [1], "wrong-type", "found a list of 1, expected one of a, b", ""),
        (POSITIVE, 0, "out-of-range", "found 0, expected a positive number", ""),
        (POSITIVE, 1e16, "out-of-range", "found 1e+16, expected a positive number, at most 1,000,000,000,000,000", ""),
        (POSITIVE, 1e-20, "out-of-range", "found 1e-20, expected a positive number, not that near to 0", ""),
        (POSITIVE, math.nan, "not-finite", "found nan, expected a positive number", "write a finite number"),
        (POSITIVE, -math.inf, "not-finite", "found -inf, expected a positive number", "write a finite number"),
        (POSITIVE, "2.5", "wrong-type", 'found "2.5", expected', "write 2.5, without quotes or separators"),
        (POSITIVE, "1,024.5", "wrong-type", 'found "1,024.5", expected', "write 1024.5, without quotes or separators"),
        (POSITIVE, "90,5", "wrong-type", 'found "90,5", expected', "write 90.5, without quotes or separators"),
        (POSITIVE, "1,024", "wrong-type", 'found "1,024", expected', "write 1024, without quotes or separators"),
        (POSITIVE, "$4", "wrong-type", 'found "$4", expected', "write 4, without quotes or separators"),
        (POSITIVE, "25ms", "wrong-type", 'found "25ms", expected', "write the number alone"),
        (POSITIVE, "80%", "wrong-type", 'found "80%", expected', "write 0.8"),
        (POSITIVE, "1:30", "wrong-type", 'found "1:30", expected', ""),
        (POSITIVE, "x" * 99, "wrong-type", 'found "' + "x" * 60 + '...", expected', ""),
        (COUNT, 10**400, "out-of-range", "found a whole number of 401 digits, expected", ""),
        (COUNT, -1.5, "wrong-type", "found -1.5, expected a whole number, 1 or more", "write -2 or -1"),
        (CEILING, 80, "out-of-range", "found 80, expected a share from 0.0001 to 1", "write 0.8 for 80 %"),
        (CEILING, 101, "out-of-range", "found 101, expected a share from 0.0001 to 1", ""),
        (TOKENS, "17M", "out-of-range", 'found "17M", expected a whole number of tokens, 1 to 16M', ""),
        (TOKENS, "x" * 99, "wrong-type", 'found "' + "x" * 60 + '...", expected', ""),
        (BANDWIDTH, "0.9bps", "out-of-range", 'found "0.9bps", expected a bandwidth', ""),
        (CEILING, 0, "out-of-range", "found 0, expected a share from 0.0001 to 1", ""),
        (BANDWIDTH, None, "wrong-type", "found nothing, expected a bandwidth", ""),
        (
            ListOf(COUNT, least=2),
            [1],
            "too-short",
            "found a list of 1, expected a list of 2 or more",
            "add what is missing",
        ),
        (
            ListOf(COUNT),
            1,
            "wrong-type",
            "found 1, expected a list of 1 or more, each a whole number",
            "write it as a list",
        ),
        (
            ListOf(COUNT, ascending=True),
            [1, 3, 2],
            "not-ascending",
            "found 2 after 3, expected an ascending list",
            "sort",
        ),
        (ListOf(COUNT, ascending=True), [1, 1], "not-ascending", "found 1 after 1", "keep one of the two points"),
        (ListOf(COUNT), ["a", 0, "b", "c"][:1] * 3, "wrong-type", "; 2 more like it in this list", ""),
        (MapOf(COUNT), {}, "wrong-type", "found an empty mapping, expected a mapping", "write one name a line"),
        (MapOf(COUNT), {" ": 1}, "bad-name", "found an empty text, expected a name", "give it a name"),
        (POINT, 5, "wrong-type", "found 5, expected a mapping", "write {x: ...}"),
        (POINT, {}, "missing-key", "is missing, expected a positive number", "add it: abscissa"),
        (POINT, {"x": None}, "wrong-type", "found nothing, expected a positive number", "fill it in: abscissa"),
        (
            POINT,
            {"x": 1, "label": None},
            "wrong-type",
            "found nothing, expected a text",
            "fill it in, or leave the key out",
        ),
        (POINT, {"x": 1, "lable": "l"}, "unknown-key", "is not a known key", "did you mean label?"),
        (POINT, {"x": 1, "size": 1}, "unknown-key", "is not a known key", "leave it out, or use one of: label"),
        (POINT, {"x": 1, "label:l": None}, "unknown-key", "is not a known key", "put a space after the colon"),
        (SHAPE, {"side": 1}, "missing-key", "is missing, expected one of circle, square", "say which"),
        (
            SHAPE,
            {"shape": "sqare"},
            "unknown-word",
            'found "sqare", expected one of circle, square',
            "did you mean square?",
        ),
        (SHAPE, {"shpae": "square"}, "unknown-key", "is not a known key", "did you mean shape?"),
        (
            SHAPE,
            [1],
            "wrong-type",
            "found a list of 1, expected a mapping with shape: circle",
            "write {shape: ..., ...}",
        ),
        (SIZE, {}, "missing-key", "found nothing in it, expected a mapping with one of metres, feet", "add one"),
        (SIZE, {"yards": 1}, "missing-key", 'found only "yards", expected', "add one"),
        (SIZE, {"meters": 1}, "unknown-key", "is not a known key", "did you mean metres?"),
        (SIZE, {"metres": 1, "feet": 3}, "ambiguous", "found metres and feet, expected one of them", "keep one"),
        (Either(TOKENS, POINT), [1], "wrong-type", "found a list of 1, expected a whole number of tokens", ""),
    ],
)
def test_what_is_said_of_anything_else(kind: Kind, value: Any, code: str, says: str, fix: str) -> None:
    problem = refusal(kind, value)
    assert problem.code == code
    assert says in problem.message
    assert problem.fix.startswith(fix)
    assert bool(problem.fix) == bool(fix)


@pytest.mark.parametrize(
    "kind", [Text(), COUNT, TOKENS, Choice(("a",)), ListOf(COUNT), POINT, SHAPE, SIZE, Either(TOKENS, POINT)]
)
def test_nothing_more_is_said_of_what_the_document_complained_about(kind: Kind) -> None:
    assert read(kind, UNREADABLE) == (INVALID, [])


def test_a_misspelt_required_key_is_one_problem() -> None:
    found, problems = read(Record({"instances": Field(COUNT, "n")}), {"instnces": 8})
    assert found is INVALID
    assert [(p.code, p.where, p.fix) for p in problems] == [("unknown-key", "f a.instnces", "did you mean instances?")]


def test_a_number_that_python_refuses_to_write() -> None:
    assert "found a whole number of 5001 digits" in refusal(COUNT, 10**5000).message
    assert "found a whole number of 4999 digits" in refusal(COUNT, -(10**4999 - 1)).message


def test_problems_of_one_list_are_told_apart_by_code() -> None:
    _, problems = read(ListOf(COUNT), ["a", 0, "b", -1, 2, None])
    assert [(p.code, p.where) for p in problems] == [("wrong-type", "f a[0]"), ("out-of-range", "f a[1]")]
    assert "2 more like it" in problems[0].message
    assert "1 more like it" in problems[1].message


def test_problems_inside_the_records_of_a_list_all_come() -> None:
    _, problems = read(ListOf(POINT), [{"x": 0}, {"x": -1}])
    assert [p.where for p in problems] == ["f a[0].x", "f a[1].x"]


def test_a_record_that_keeps_what_is_invalid() -> None:
    record = Record({"x": Field(POSITIVE, "x"), "y": Field(POSITIVE, "y")}, keep_invalid=True)
    found, problems = read(record, {"x": 0, "y": 1})
    assert found == {"x": INVALID, "y": 1.0}
    assert len(problems) == 1


def test_columns_of_one_length() -> None:
    context = Context(Document("f", {}))
    assert same_length(context, (), [("a", [1]), ("b", [2]), ("c", [3])])
    assert not same_length(context, (), [("a", [1, 2]), ("b", [2]), ("c", [])])
    assert [p.message for p in context.problems] == [
        "found 1 value, expected 2, one for each of a",
        "found 0 values, expected 2, one for each of a",
    ]


def test_problems_come_once_and_in_the_order_of_the_lines() -> None:
    context = Context(Document("f", {}, {("a",): 12, ("b",): 3, ("c",): 0}, problems=(Problem("x", "f:7 d", "m"),)))
    for key in ("c", "a", "b", "a"):
        context.add((key,), "x", "m")
    with pytest.raises(InputError) as caught:
        context.raise_problems()
    assert [p.where for p in caught.value.problems] == ["f:3 b", "f:7 d", "f:12 a", "--set c"]
    Context(Document("f", {})).raise_problems()


def test_an_override_inside_a_mapping_that_is_not_there() -> None:
    record = Record({"all": Field(MapOf(POINT), "points")})
    document = apply_overrides(Document("f", {"all": {"one": {"x": 1}}}), {"all.oen.x": "2"})
    assert record.read(Context(document), document.data, ()) == {
        "all": {"one": {"x": 1.0, "label": "none"}, "oen": {"x": 2.0, "label": "none"}}
    }
    document = apply_overrides(Document("f", {"all": {"one": {"x": 1}}}), {"all.oen.label": "l"})
    context = Context(document)
    assert record.read(context, document.data, ()) is INVALID
    assert [str(p) for p in context.problems] == [
        "--set all.oen: there is no all.oen to change\n    fix: did you mean one?"
    ]


@pytest.mark.parametrize(
    ("data", "code"),
    [(None, "empty-file"), ({"profiles": []}, "wrong-file"), ({"input_tokens": 1}, "wrong-file"), ([], "wrong-type")],
)
def test_whole_files(data: Any, code: str) -> None:
    context = Context(Document("f", data))
    assert read_whole(context, Record({"clusters": Field(POSITIVE, "n")}), "scenario") is INVALID
    assert [p.code for p in context.problems] == [code]


@pytest.mark.parametrize(
    ("path", "record"),
    [
        (CASE_STUDY, SCENARIO),
        *((path, MODEL) for path in sorted((ROOT / "models").glob("*.yaml"))),
        *((path, WORKLOAD) for path in sorted((ROOT / "workloads").glob("*.yaml"))),
        *((path, SCENARIO) for path in sorted((ROOT / "tests/bad_input/harmless").glob("*.yaml"))),
        *((path, MODEL) for path in sorted((ROOT / "tests/bad_input/warned").glob("*.yaml"))),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_what_is_read_fits_the_schema(path: Path, record: Record) -> None:
    schema = record.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(read_document(path, "file").data, schema)


@pytest.mark.parametrize(
    ("record", "data"),
    [
        (SCENARIO, {"model": "m", "workload": "w", "clusters": {}}),
        (SCENARIO, {"model": "m", "workload": "w", "clusters": {"a": {"role": "pd", "hardware": "X", "instances": 0}}}),
        (WORKLOAD, {"input_tokens": {"distribution": "zipf"}, "output_tokens": 1}),
        (WORKLOAD, {"input_tokens": 1, "output_tokens": 1, "rate": 3}),
        (MODEL, {"profiles": []}),
    ],
)
def test_what_is_refused_does_not_fit_the_schema(record: Record, data: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, record.schema())
