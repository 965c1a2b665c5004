"""Workload files: what each distribution means."""

from __future__ import annotations

import math
from typing import Any

import pytest

from prfaas_opt.errors import InputError
from prfaas_opt.io.document import plain_document
from prfaas_opt.io.loading import load_workload
from prfaas_opt.io.workload_file import read_workload
from prfaas_opt.workload.distribution import LengthDistribution


def lengths(value: Any) -> LengthDistribution:
    return read_workload(plain_document({"input_tokens": value, "output_tokens": 1}, "w")).input_tokens


def codes(value: Any) -> list[tuple[str, str]]:
    with pytest.raises(InputError) as caught:
        lengths(value)
    return [(problem.code, problem.where) for problem in caught.value.problems]


def test_the_shipped_workload() -> None:
    workload = load_workload("prfaas-case-study")
    assert (workload.name, workload.output_tokens.mean) == ("prfaas-case-study", 1024)
    assert (workload.input_tokens.low, workload.input_tokens.high) == (128, 131072)
    assert workload.input_tokens.mean == pytest.approx(27485.7, rel=1e-5)
    assert workload.source


def test_what_may_be_left_out() -> None:
    workload = read_workload(plain_document({"input_tokens": "1K", "output_tokens": 2}, "w"))
    assert (workload.name, workload.description, workload.source) == ("inline workload", "", "")


@pytest.mark.parametrize(
    ("value", "low", "high", "mean"),
    [
        (1000, 1000, 1000, 1000),
        ("32K", 32768, 32768, 32768),
        ({"distribution": "constant", "value": "1K"}, 1024, 1024, 1024),
        ({"distribution": "uniform", "low": "1K", "high": "3K"}, 1024, 3072, 2048),
        ({"distribution": "table", "lengths": [10, 20, "1K"], "weights": [1, 3, 0]}, 10, 20, 17.5),
        (
            {
                "distribution": "mixture",
                "parts": [
                    {"weight": 3, "distribution": "constant", "value": 100},
                    {"weight": 1, "distribution": "uniform", "low": 200, "high": 400},
                ],
            },
            100,
            400,
            150,
        ),
    ],
)
def test_distributions(value: Any, low: float, high: float, mean: float) -> None:
    found = lengths(value)
    assert (found.low, found.high) == (low, high)
    assert found.mean == pytest.approx(mean)


def test_a_lognormal_is_cut_to_its_range() -> None:
    found = lengths({"distribution": "truncated-lognormal", "mu": math.log(1000), "sigma": 1, "low": 1, "high": "16M"})
    assert found.quantile(0.5) == pytest.approx(1000, rel=1e-6)
    assert found.share_above(1000 * math.e) == pytest.approx(0.158655, rel=1e-4)


def test_a_mixture_of_mixtures() -> None:
    inner = {
        "distribution": "mixture",
        "parts": [{"weight": w, "distribution": "constant", "value": w} for w in (1, 3)],
    }
    found = lengths({"distribution": "mixture", "parts": [{"weight": 2, **inner}, {"weight": 2, **inner}]})
    assert found.atoms == ((1.0, 0.25), (3.0, 0.75))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"distribution": "uniform", "low": 5, "high": 5}, [("out-of-range", "w input_tokens.high")]),
        ({"distribution": "table", "lengths": [1], "weights": []}, [("length-mismatch", "w input_tokens.weights")]),
        ({"distribution": "table", "lengths": [1], "weights": [0]}, [("out-of-range", "w input_tokens.weights")]),
        (
            {"distribution": "truncated-lognormal", "mu": 1, "sigma": 0.1, "low": 1000, "high": 2000},
            [("empty-range", "w input_tokens")],
        ),
        (
            {"distribution": "mixture", "parts": [{"weight": 0}, {"distribution": "constant", "value": 0}]},
            [
                ("missing-key", "w input_tokens.parts[0].distribution"),
                ("missing-key", "w input_tokens.parts[1].weight"),
                ("out-of-range", "w input_tokens.parts[1].value"),
            ],
        ),
        ({"distribution": "constant", "value": 2**24 + 1}, [("out-of-range", "w input_tokens.value")]),
    ],
)
def test_refusals(value: Any, wanted: list[tuple[str, str]]) -> None:
    assert codes(value) == wanted


def test_the_fix_of_a_range_depends_on_its_ends() -> None:
    for high, fix in ((10, "swap the two"), (20, "for a single length write {distribution: constant, value: 20}")):
        with pytest.raises(InputError) as caught:
            lengths({"distribution": "uniform", "low": 20, "high": high})
        assert [problem.fix for problem in caught.value.problems] == [fix]
