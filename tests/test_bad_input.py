"""The corpus of broken files: each says what is wrong with it, and exactly that must come, all at once.

A new case is a file in ``bad_input/scenario``, ``model`` or ``workload`` that starts with a line
``# expect: CODE @ LINE FIELD`` for each problem (LINE is ``-`` where there is none, ``FILE:LINE`` in another file).
Files that cannot hold comments have them in a file of the same name that ends in ``.expect``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from prfaas_opt import api
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io import yaml_file

CORPUS = Path(__file__).with_name("bad_input")
BROKEN = sorted(path for kind in ("scenario", "model", "workload") for path in (CORPUS / kind).glob("*.yaml"))
HARMLESS = sorted((CORPUS / "harmless").glob("*.yaml"))
WARNED = sorted((CORPUS / "warned").glob("*.yaml"))

GOOD: dict[str, Any] = {
    "name": "a fleet",
    "model": "internal-1t",
    "workload": "prfaas-case-study",
    "clusters": {
        "prfaas": {"role": "prefill", "hardware": "H200", "instances": 4},
        "pd": {"role": "pd", "hardware": "H20", "instances": 8},
    },
    "links": [{"from": "prfaas", "to": "pd", "bandwidth": "100Gbps"}],
    "slo": {"tokens_per_s": 40},
}

SAYS_NO_EXPECTATION = {
    "circular",
    "duplicate-key",
    "length-above-range",
    "missing-file",
    "missing-link",
    "negative-size",
    "not-supported",
    "not-yaml",
    "unknown-key",
    "unknown-name",
    "unused",
}
"""Codes whose message need not say what is expected; of any other it must."""
MAY_HAVE_NO_FIX = {"out-of-range", "unknown-word", "wrong-type"}
"""Codes where what is expected may be all there is to say."""


def identity(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def source(path: Path) -> str | dict[str, Any]:
    """The scenario that reaches a file of the corpus."""
    kind = path.parent.name
    return str(path) if kind == "scenario" else GOOD | {kind: str(path)}


def expected(path: Path) -> list[str]:
    aside = path.with_suffix(".expect")
    text = (aside if aside.exists() else path).read_text(encoding="utf-8", errors="replace")
    return re.findall(r"^# expect: (.+?) *$", text, flags=re.MULTILINE)


def place(problem: Problem, path: Path) -> str:
    """A problem as the corpus writes it: code, line and field."""
    match = re.fullmatch(r"(?P<file>scenario|\S+?\.yaml)(?::(?P<line>\d+))?(?: (?P<field>.+))?", problem.where)
    assert match, f"names no place: {problem.where}"
    line = match["line"] or "-"
    if match["file"] != "scenario" and Path(match["file"]).resolve() != path.resolve():
        line = f"{os.path.relpath(Path(match['file']).resolve(), path.parent)}:{line}"
    return f"{problem.code} @ {line} {match['field'] or ''}".strip()


def problems_of(path: Path) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        api.plan(source(path))
    assert caught.value.exit_code == 4
    return caught.value.problems


@pytest.mark.parametrize("path", BROKEN, ids=identity)
def test_exactly_these_problems_come(path: Path) -> None:
    assert expected(path), "says no problem that it expects"
    assert sorted(place(problem, path) for problem in problems_of(path)) == sorted(expected(path))


def test_the_parser_without_its_c_library_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_file, "_LOADER", yaml_file.loader_class(yaml.SafeLoader))
    for path in BROKEN:
        assert sorted(place(problem, path) for problem in problems_of(path)) == sorted(expected(path)), path


@pytest.mark.parametrize("path", BROKEN, ids=identity)
def test_messages_help(path: Path) -> None:
    for problem in problems_of(path):
        assert problem.message.strip()
        for text in (problem.message, problem.fix, problem.where):
            assert text.isprintable(), text
            assert len(text) < 250, text
            assert not re.search(r"None|Traceback|Error|<class|object at|dict|tuple|str\b", text), text
        assert problem.code in SAYS_NO_EXPECTATION or "expected" in problem.message, problem
        assert problem.code in MAY_HAVE_NO_FIX or problem.fix, problem


def test_the_corpus_is_large_and_varied() -> None:
    codes = {problem.partition(" ")[0] for path in BROKEN for problem in expected(path)}
    assert len(BROKEN) >= 200
    assert len(codes) >= 25, sorted(codes)
    for kind in ("scenario", "model", "workload"):
        assert sum(path.parent.name == kind for path in BROKEN) >= 30


@pytest.mark.parametrize("path", HARMLESS, ids=identity)
def test_unusual_files_that_are_right_are_read(path: Path) -> None:
    assert api.plan(str(path)).throughput_rps == api.plan(GOOD).throughput_rps


@pytest.mark.parametrize("path", WARNED, ids=identity)
def test_doubtful_figures_are_warnings_not_errors(path: Path) -> None:
    (wanted,) = re.findall(r"^# warn: (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    scenario = api.load_scenario(GOOD | {"model": str(path)})
    assert [warning for warning in api.warnings(scenario) if warning.startswith(wanted)]
    assert api.plan(scenario).throughput_rps > 0


def test_a_missing_scenario_file_and_a_folder() -> None:
    for path in (CORPUS / "no-such.yaml", CORPUS):
        with pytest.raises(InputError) as caught:
            api.plan(path)
        (problem,) = caught.value.problems
        assert (problem.code, problem.where) == ("missing-file", str(path))
