"""``models fit`` as a command, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from prfaas_opt import schemas
from prfaas_opt.cli import app
from prfaas_opt.errors import InputError
from prfaas_opt.fit_api import fit_curve, fit_targets

POINTS = """\
length_tokens,latency_ms
1024,604
1024,610
4096,1010
8192,1545
8192,2150
16384,2680
32768,5050
65536,10250
131072,22600
"""
TARGETS = """\
workload: prfaas-case-study
targets:
  - {kind: throughput, instances: 9, rps: 2.11}
  - {kind: throughput, instances: 3, up_to: 19400, rps: 1.64}
  - {kind: ttft-percentile, percentile: 90, ttft_s: 9.73}
  - {kind: ttft-mean, ttft_s: 4.44, held_out: true}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("points.csv").write_text(POINTS, encoding="utf-8")
    Path("targets.yaml").write_text(TARGETS, encoding="utf-8")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", "fit", *arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


COMMANDS = [["points.csv"], ["points.csv", "--robust"], ["--targets", "targets.yaml"]]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_the_text_fits_80_columns(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert all(len(line) <= 80 for line in result.stdout.splitlines())


@pytest.mark.parametrize("arguments", COMMANDS)
def test_json_is_one_object_that_its_schema_describes(arguments: list[str]) -> None:
    result = run(*arguments, "--json")
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema("models fit")).validate(document)
    assert (document["command"], document["status"]) == ("models fit", "ok")
    assert document["warnings"] == document["data"]["warnings"]
    assert document["data"]["prefill"] == yaml.safe_load(document["data"]["prefill_yaml"])["prefill"]


def test_the_targets_file_meets_its_schema() -> None:
    validator = jsonschema.Draft202012Validator(schemas.schema("targets"))
    validator.validate(yaml.safe_load(TARGETS))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(yaml.safe_load(TARGETS.replace("ttft-mean", "ttft-median")))


def test_the_text_of_points_says_coefficients_outliers_and_the_rule() -> None:
    result = run("points.csv")
    assert "    a_s: 0.469247\n" in result.stdout
    assert "  range_tokens: [1024, 131072]\n" in result.stdout
    assert "Points that look wrong: 1 of 9 (line 6)." in result.stdout
    assert "|z| above 3.5" in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines() if "wrong?" in line] == ["6"]
    assert "pull this fit" in result.stderr
    robust = run("points.csv", "--robust")
    assert "Huber's loss" in robust.stdout
    assert "pull this fit" not in robust.stderr


def test_the_text_of_targets_says_the_held_out_check_as_such() -> None:
    lines = run("--targets", "targets.yaml").stdout.splitlines()
    (title,) = [i for i, line in enumerate(lines) if line.startswith(" Held out: not used in the fit")]
    assert lines[title + 2].split() == ["mean", "TTFT", "4.44", "s", "4.447", "s", "+0.2", "%", "4.441", "to", "4.453"]
    (c,) = [line for line in lines if line.startswith(" c_s_per_token2")]
    assert c.split()[2:] == ["2.94e-10", "2.683e-10", "3.197e-10", "8.7", "%"]
    (longest,) = [line for line in lines if line.startswith(" T(128K)")]
    assert longest.split()[-2:] == ["1.0", "%"]
    assert "    b_s_per_token: 0.000130039" in lines


@pytest.mark.parametrize(
    "heading",
    [
        "length,latency (ms)",
        "Length_Tokens;Prefill latency [ms]",
        "prompt_length\tlatency_ms",
        "length_tokens,prefill_ms",
        "lengths,latency_MS",
    ],
)
def test_headings_and_separators(heading: str) -> None:
    delimiter = next(ch for ch in ";\t," if ch in heading)
    body = POINTS.replace("1024,", "1K,").replace(",", delimiter).split("\n", 1)[1]
    Path("other.csv").write_text(f"\ufeff# by hand\n\n{heading}\n{body}", encoding="utf-8")
    found, same = fit_curve("other.csv"), fit_curve("points.csv")
    assert found.coefficients == same.coefficients
    assert [row.line for row in found.points] == [row.line + 2 for row in same.points]


def test_units_of_the_heading() -> None:
    expected = fit_curve("points.csv").coefficients.a_s
    for unit, factor in (("s", 1e-3), ("us", 1e3)):
        rows = [line.split(",") for line in POINTS.splitlines()[1:]]
        text = "\n".join([f"length,latency_{unit}", *(f"{length},{float(y) * factor}" for length, y in rows)])
        Path("other.csv").write_text(text, encoding="utf-8")
        assert fit_curve("other.csv").coefficients.a_s == pytest.approx(expected)


def test_a_strange_file_name_gives_a_text_that_loads() -> None:
    Path("a: #b, [c].csv").write_text(POINTS, encoding="utf-8")
    text = yaml.safe_load(fit_curve("a: #b, [c].csv").prefill_yaml)
    assert text["provenance"] == {"prefill": "fitted, to 9 points of a___b___c_.csv"}


def test_other_columns_are_said_to_be_left_out() -> None:
    text = POINTS.replace("latency_ms\n", "latency_ms,run\n").replace("\n1", ",x\n1").replace("\n4", ",x\n4")
    lines = [line if line.count(",") == 2 else f"{line},x" for line in text.replace(",x", "").splitlines()]
    Path("other.csv").write_text("\n".join(lines), encoding="utf-8")
    found = fit_curve("other.csv")
    assert "columns not read: run" in found.warnings
    assert found.coefficients == fit_curve("points.csv").coefficients


BAD_POINTS = {
    "": [("empty-file", "other.csv", "is empty")],
    "length,latency\n1,2\n": [("bad-unit", "other.csv:1", '"latency" has no unit, expected latency_s or')],
    "length,latency_min\n1,2\n": [("bad-unit", "other.csv:1", "unknown unit")],
    "size,time\n1,2\n": [
        ("missing-column", "other.csv:1", "none for the length"),
        ("missing-column", "other.csv:1", "none for the latency"),
    ],
    "length,latency_s,latency_ms\n1,2,3\n": [("ambiguous", "other.csv:1", "latency_ms")],
    "length,latency_s\n1,1\n2,nan\n3,-3\n4,inf\n5,x\nx,5\n1.5,2\n0,1\n7,0\n8,1e9\n9,1,1\n": [
        ("not-finite", "other.csv:3 latency_s", '"nan", expected a finite number'),
        ("out-of-range", "other.csv:4 latency_s", '"-3", expected a positive latency'),
        ("not-finite", "other.csv:5 latency_s", '"inf"'),
        ("wrong-type", "other.csv:6 latency_s", '"x", expected a number'),
        ("bad-unit", "other.csv:7 length", '"x" is not a number'),
        ("bad-unit", "other.csv:8 length", "not a whole number of tokens"),
        ("out-of-range", "other.csv:9 length", "expected 1 to 16,777,216 tokens"),
        ("out-of-range", "other.csv:10 latency_s", '"0"'),
        ("implausible", "other.csv:11 latency_s", "1e+09 s"),
        ("length-mismatch", "other.csv:12", "3 cells, expected 2"),
    ],
    "length,latency_s\n1K,1\n1024,1.1\n1K,1.2\n": [("too-short", "other.csv", "all points are of one length, 1,024")],
    "length,latency_s\n1K,1\n2K,1.1\ne52768,7\n": [("bad-unit", "other.csv:4 length", '"e52768" is not a number')],
    "length,latency_s\n1K,1\n2K,1.1\n": [("too-short", "other.csv", "found 2 lengths, expected 3 different ones")],
    "length,latency_s\n": [("too-short", "other.csv", "found 0 lengths")],
}


@pytest.mark.parametrize("text", BAD_POINTS)
def test_bad_points_are_refused_all_at_once(text: str) -> None:
    Path("other.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        fit_curve("other.csv")
    problems = caught.value.problems
    assert [(p.code, p.where) for p in problems] == [expected[:2] for expected in BAD_POINTS[text]]
    for problem, (_, _, part) in zip(problems, BAD_POINTS[text], strict=True):
        assert part in problem.message
        assert problem.fix


def test_of_very_many_problems_the_first_ten_are_told() -> None:
    Path("other.csv").write_text("length,latency_s\n" + "1,x\n" * 500, encoding="utf-8")
    with pytest.raises(InputError, match="490 more such problems") as caught:
        fit_curve("other.csv")
    assert len(caught.value.problems) == 11


def test_a_cell_of_a_megabyte_is_no_number() -> None:
    Path("other.csv").write_text("length,latency_s\n1," + "5" * 2**20 + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"other.csv:2"):
        fit_curve("other.csv")


@pytest.mark.parametrize("value", ["sNaN", "9" * 5000, "1e400", "0x10", "1,000", "", "-0"])
def test_texts_that_are_no_figure(value: str) -> None:
    Path("other.yaml").write_text(TARGETS.replace("2.11", f'"{value}"'), encoding="utf-8")
    with pytest.raises(InputError, match="rps"):
        fit_targets("other.yaml")


@pytest.mark.parametrize("raw", [b"\x89PNG\r\n\x1a\n\x00\x00", b"length,latency_s\n1,\xff\n"])
def test_files_that_are_no_text(raw: bytes) -> None:
    Path("other.csv").write_bytes(raw)
    with pytest.raises(InputError, match="not text in UTF-8"):
        fit_curve("other.csv")


BAD_TARGETS = {
    "": [("empty-file", "")],
    TARGETS.replace("ttft-mean", "ttft-median"): [("unknown-word", "targets[3].kind")],
    TARGETS.replace("9.73", ".nan").replace("2.11", "-2").replace("1.64", '"fast"').replace("4.44", "1e9"): [
        ("out-of-range", "targets[0].rps"),
        ("wrong-type", "targets[1].rps"),
        ("not-finite", "targets[2].ttft_s"),
        ("out-of-range", "targets[3].ttft_s"),
    ],
    TARGETS.replace("percentile: 90", "percentile: 100").replace("instances: 9, ", "").replace("true", "1"): [
        ("missing-key", "targets[0].instances"),
        ("out-of-range", "targets[2].percentile"),
        ("wrong-type", "targets[3].held_out"),
    ],
    TARGETS.replace("prfaas-case-study", "prfaas-case-studi") + "estimator: mean\n": [
        ("unknown-name", "workload"),
        ("unknown-word", "estimator"),
    ],
    TARGETS.replace("up_to", "upto"): [("unknown-key", "targets[1].upto")],
    TARGETS.replace("up_to: 19400", "up_to: 100"): [("empty-range", "targets[1]")],
    TARGETS.replace("up_to: 19400", "above: 30K, up_to: 20K"): [("empty-range", "targets[1]")],
    TARGETS.replace("1.64}", "1.64, held_out: true}"): [("too-short", "targets")],
    TARGETS.replace("up_to: 19400, ", ""): [("not-determined", "targets")],
    TARGETS.split("targets:")[0]: [("missing-key", "targets")],
    TARGETS.replace("prfaas-case-study", "{input_tokens: 500, output_tokens: 1}").replace(", up_to: 19400", ""): [
        ("not-determined", "targets")
    ],
}


@pytest.mark.parametrize("text", BAD_TARGETS)
def test_bad_targets_are_refused_all_at_once(text: str) -> None:
    Path("other.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        fit_targets("other.yaml")
    problems = caught.value.problems
    assert [(p.code, p.where.partition(" ")[2]) for p in problems] == BAD_TARGETS[text]
    assert all(p.where.startswith("other.yaml") for p in problems)


def test_exit_codes() -> None:
    assert run().exit_code == 2
    assert run("points.csv", "--targets", "targets.yaml").exit_code == 2
    assert run("--targets", "targets.yaml", "--robust").exit_code == 2
    assert run("missing.csv").exit_code == 4
    assert run("--targets", "missing.yaml").exit_code == 4
    assert run(".").exit_code == 4
    Path("other.csv").write_text("length,latency\n", encoding="utf-8")
    result = run("other.csv", "--json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema("error")).validate(document)
    assert (document["command"], document["errors"][0]["code"]) == ("models fit", "bad-unit")
