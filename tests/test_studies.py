"""The studies that ship: their pages show them as they are and say what they show."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prfaas_opt import load_scenario, plan

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "scripts" / "studies"
PAGES = ROOT / "docs" / "explanation"


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(STUDIES))
    yield {name: importlib.import_module(name) for name in ("cross_datacenter", "fleet_mix")}
    sys.path.remove(str(STUDIES))


@pytest.fixture(scope="module")
def cross_found(modules: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return modules["cross_datacenter"].run(tmp_path_factory.mktemp("cross"))


@pytest.fixture(scope="module")
def lines(cross_found: Any) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = cross_found.lines
    return found


@pytest.fixture(scope="module")
def mixes(modules: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return modules["fleet_mix"].run(tmp_path_factory.mktemp("mix"))


def text_of(page: str) -> str:
    return " ".join((PAGES / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize(
    ("page", "study"),
    [
        ("cross-datacenter.md", "cross-datacenter.yaml"),
        ("fleet-mix.md", "fleet-mix.yaml"),
        ("fleet-mix.md", "price-of-bytes.yaml"),
    ],
)
def test_a_page_shows_the_study_that_ships(page: str, study: str) -> None:
    blocks = dict(re.findall(r"^```yaml (\S+)\n(.*?)^```", (PAGES / page).read_text(), re.DOTALL | re.MULTILINE))
    assert blocks[study] == (STUDIES / study).read_text(encoding="utf-8")


def test_needs_of_models_are_those_of_plans(modules: dict[str, Any], lines: dict[str, list[dict[str, Any]]]) -> None:
    cross = modules["cross_datacenter"]
    assert set(lines) == set(cross.ATTENTION)
    for model, line in lines.items():
        needs = cross.needed_gbps(line)
        at = [
            plan(load_scenario(overrides={"model": model, "links.0.bandwidth": f"{needs * times}Gbps"})).throughput_rps
            for times in (0.99, 1.001, 50)
        ]
        assert at[1] == pytest.approx(at[2], rel=1e-9)
        assert at[0] < at[1]


def test_what_the_page_says_of_the_claim_is_so(modules: dict[str, Any], lines: dict[str, list[dict[str, Any]]]) -> None:
    cross, said = modules["cross_datacenter"], text_of("cross-datacenter.md")
    needs = {model: cross.needed_gbps(line) for model, line in lines.items()}
    dense = {model: needs[model] for model in cross.DENSE}
    hybrid = {model: gbps for model, gbps in needs.items() if model not in dense}
    share = {
        model: cross.gain_share(line, next(row for row in line if row[cross.BANDWIDTH] == 100))
        for model, line in lines.items()
    }
    assert "less than a third of the paper's 100 Gbps link" in said
    assert max(hybrid.values()) < 100 / 3
    assert "no dense model has all of it at 100 Gbps" in said
    assert max(share[model] for model in dense) < 0.99
    assert "3.6 to 26 times as much" in said
    assert f"{min(dense.values()) / max(hybrid.values()):.1f}" == "3.6"
    assert f"{max(dense.values()) / min(hybrid.values()):.0f}" == "26"
    assert "13 to 50 H200 instances of the hybrids, but fewer than four of the dense models" in said
    assert [round(400 / gbps) for gbps in (max(hybrid.values()), min(hybrid.values()))] == [13, 50]
    assert 400 / min(dense.values()) < 4
    assert "qwen3-235b keeps 80 % of its gain and minimax-m2.5 a quarter" in said
    assert (round(share["qwen3-235b"], 2), round(share["minimax-m2.5"], 1)) == (0.8, 0.3)
    assert share["minimax-m2.5"] == pytest.approx(0.25, abs=0.02)
    assert "needs almost four times the bandwidth of ring-2.5-1t" in said
    assert 3.7 < needs["qwen3.5-397b"] / needs["ring-2.5-1t"] < 4
    assert needs["qwen3.5-397b"] / needs["ring-2.5-1t"] > needs["qwen3-235b"] / needs["qwen3.5-397b"]
    gains = [line[-1]["ratio"] for line in lines.values()]
    assert "1.56 to 1.69 times" in said
    assert (round(min(gains), 2), round(max(gains), 2)) == (1.56, 1.69)
    least = [1 - line[0]["ratio"] for line in lines.values()]
    assert "at 1 Gbps 13 to 37 % less" in said
    assert (round(min(least), 2), round(max(least), 2)) == (0.13, 0.37)
    assert "its plateau is decode's" in said
    assert lines["kimi-linear"][-1]["bottlenecks"] == "pd_decode"


def test_what_the_page_says_of_mixes_is_so(modules: dict[str, Any], mixes: Any) -> None:
    fleet, said = modules["fleet_mix"], text_of("fleet-mix.md")
    _, alone = mixes.all_h20_usd_per_hour()

    def saved(price: float, gbps: float) -> float:
        able = [row for row in mixes.some(price=price, gbps=gbps) if row["served_rps"] >= fleet.DEMAND_RPS]
        least: float = min(row["cost.usd_per_hour"] for row in able)
        return round(1 - least / float(alone), 2)

    assert "a mix saves 17 % over 10 Gbps and nothing over 5" in said
    assert (saved(2, 10), saved(2, 5)) == (0.17, 0.0)
    assert "At three times it saves nothing over any link; at four times it costs more" in said
    assert max(saved(3, gbps) for gbps in mixes.bandwidths) == 0
    assert max(saved(4, gbps) for gbps in mixes.bandwidths) < 0
    assert "from about half a cent per GB on" in said
    sends = {row[fleet.PER_GB]: row["offload_share"] for row in mixes.bytes_rows if row[fleet.PRICE] == 2}
    assert sends[0.005] > 0 == sends[0.01]


def test_a_price_of_break_even_is_one(modules: dict[str, Any], mixes: Any) -> None:
    fleet = modules["fleet_mix"]
    instances, alone = mixes.all_h20_usd_per_hour()
    row = next(row for row in mixes.some(price=1, gbps=10) if (row[fleet.H200], row[fleet.H20]) == (4, 8))
    price = fleet.break_even_price(mixes, row)
    fields = {
        "links.0.bandwidth": "10Gbps",
        "clusters.pd.price_per_gpu_hour": "1",
        "baseline.instances": str(instances),
    }
    found = plan(load_scenario(overrides=fields | {"clusters.prfaas.price_per_gpu_hour": str(price)}))
    assert found.cost is not None
    assert found.cost.usd_per_hour == pytest.approx(alone)
    assert found.throughput_rps >= fleet.DEMAND_RPS
    assert found.ratio is not None
    assert found.throughput_rps / found.ratio >= fleet.DEMAND_RPS


def rounded(svg: bytes) -> str:
    """A picture's text with coordinates to the whole point, which other versions of fonts leave as they are."""
    return re.sub(r"-?\d+\.\d+", lambda match: f"{float(match[0]):.0f}", svg.decode())


@pytest.mark.parametrize("name", ["cross_datacenter", "fleet_mix"])
def test_pictures_are_those_of_the_rows(modules: dict[str, Any], cross_found: Any, mixes: Any, name: str) -> None:
    import matplotlib as mpl

    found = cross_found if name == "cross_datacenter" else mixes
    made = modules[name].picture(found)
    assert made == modules[name].picture(found)
    pinned = re.search(r"^matplotlib==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    if pinned is None or mpl.__version__ != pinned[1]:
        pytest.skip("another version of matplotlib draws it otherwise")
    assert rounded(made) == rounded((PAGES / f"{modules[name].NAME}.svg").read_bytes())
