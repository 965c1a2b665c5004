"""Scenario files: what they mean in SI units, what belongs together, and how overrides change them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.scenario_file import CASE_STUDY, load_scenario
from prfaas_opt.io.yaml_file import read_document
from prfaas_opt.scenario import Baseline, Cluster, Link, Scenario

ROOT = Path(__file__).parents[1]
GOOD: dict[str, Any] = {
    "model": "internal-1t",
    "workload": "prfaas-case-study",
    "clusters": {
        "prfaas": {"role": "prefill", "hardware": "H200", "instances": 4},
        "pd": {"role": "pd", "hardware": "H20", "instances": 8},
    },
    "links": [{"from": "prfaas", "to": "pd", "bandwidth": "100Gbps"}],
}


def changed(**sections: Any) -> dict[str, Any]:
    """The good scenario with sections replaced, or left out where they are None."""
    merged = copy.deepcopy(GOOD) | sections
    return {key: value for key, value in merged.items() if value is not None}


def problems(data: Any, overrides: dict[str, str] | None = None) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        load_scenario(data, overrides)
    return caught.value.problems


def places(data: Any, overrides: dict[str, str] | None = None) -> list[tuple[str, str]]:
    return [(problem.code, problem.where.removeprefix("scenario ")) for problem in problems(data, overrides)]


def test_the_case_study() -> None:
    scenario = load_scenario()
    assert scenario.remote == Cluster("prfaas", "prefill", "H200", 4)
    assert scenario.pd == Cluster("pd", "pd", "H20", 8)
    assert scenario.link == Link("prfaas", "pd", 12.5e9, 1.0)
    assert (scenario.tokens_per_s, scenario.estimator, scenario.baseline) == (40, "expected-time", Baseline())
    assert (scenario.model.name, scenario.workload.name) == ("internal-1t", "prfaas-case-study")
    assert scenario.origin.where().startswith("built-in case study")


def test_a_file_is_read_as_the_case_study_is(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(CASE_STUDY.read_text(encoding="utf-8"), encoding="utf-8")
    read = load_scenario(path)
    assert read.origin.where().startswith(str(path))
    assert (read.pd, read.remote, read.link) == (load_scenario().pd, load_scenario().remote, load_scenario().link)


def test_every_optional_field() -> None:
    scenario = load_scenario(
        changed(
            name="fleet",
            clusters={
                "west": {"role": "prefill", "hardware": "h200", "instances": 2, "max_utilization": 0.9},
                "east": {"role": "pd", "hardware": "H20", "instances": 3, "price_per_gpu_hour": 1.5},
            },
            links=[{"from": "west", "to": "east", "bandwidth": "1GB/s", "max_utilization": 0.5}],
            slo={"tokens_per_s": 20},
            estimator="mean-length",
            baseline={"hardware": "H200", "instances": 5, "price_per_gpu_hour": 0},
        )
    )
    assert scenario.remote == Cluster("west", "prefill", "h200", 2, 0.9, None)
    assert scenario.pd == Cluster("east", "pd", "H20", 3, 1.0, 1.5)
    assert scenario.link == Link("west", "east", 1e9, 0.5)
    assert (scenario.name, scenario.tokens_per_s, scenario.estimator) == ("fleet", 20, "mean-length")
    assert scenario.baseline == Baseline("H200", 5, 0)


def test_one_pd_cluster_alone() -> None:
    scenario = load_scenario(changed(clusters={"pd": GOOD["clusters"]["pd"]}, links=None))
    assert (scenario.remote, scenario.link, scenario.tokens_per_s) == (None, None, None)


def test_model_and_workload_may_be_written_out() -> None:
    written_out = {
        kind.removesuffix("s"): read_document(ROOT / kind / f"{name}.yaml", "file").data
        for kind, name in (("models", "internal-1t"), ("workloads", "prfaas-case-study"))
    }
    inline, named = load_scenario(changed(**written_out)), load_scenario(GOOD)
    assert inline.workload == named.workload
    assert inline.model == named.model


def test_files_are_found_beside_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "study"
    (folder / "workloads").mkdir(parents=True)
    (folder / "workloads" / "mine.yaml").write_text("input_tokens: 2K\noutput_tokens: 3\n")
    (folder / "other.yaml").write_text("input_tokens: 4K\noutput_tokens: 3\n")
    monkeypatch.chdir(tmp_path)
    for name, length in (("mine", 2048), ("other.yaml", 4096), ("./other.yaml", 4096)):
        (folder / "fleet.yaml").write_text(yaml.safe_dump(changed(workload=name)))
        assert load_scenario("study/fleet.yaml").workload.input_tokens.mean == length


def test_the_place_of_an_error_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traffic.yaml").write_text("output_tokens: 3\ninput_tokens: none\n")
    rest = yaml.safe_dump(changed(model=None, workload=None))
    (tmp_path / "fleet.yaml").write_text(f"workload: traffic.yaml\nmodel: none\n{rest}")
    assert [problem.where for problem in problems("fleet.yaml")] == [
        "fleet.yaml:2 model",
        "traffic.yaml:2 input_tokens",
    ]


@pytest.mark.parametrize(
    ("sections", "wanted"),
    [
        ({"links": None}, [("missing-link", "links")]),
        ({"links": []}, [("missing-link", "links")]),
        ({"links": [{"from": "pd", "to": "prfaas", "bandwidth": "1Gbps"}]}, [("unusable-link", "links[0]")]),
        ({"links": [{"from": "x", "to": "pd", "bandwidth": "1Gbps"}]}, [("unknown-name", "links[0].from")]),
        ({"links": GOOD["links"] * 3}, [("duplicate-key", "links[1]"), ("duplicate-key", "links[2]")]),
        ({"links": [{"from": "prfaas", "to": "pd"}]}, [("missing-key", "links[0].bandwidth")]),
        ({"clusters": {"pd": GOOD["clusters"]["pd"]}}, [("unknown-name", "links[0].from")]),
        (
            {"clusters": {"prfaas": GOOD["clusters"]["prfaas"]}},
            [("unknown-name", "links[0].to"), ("missing-key", "clusters")],
        ),
        ({"baseline": {"hardware": "B200"}}, [("unknown-hardware", "baseline.hardware")]),
        ({"slo": {"ttft": {"p90": 4}}}, [("bad-unit", "slo.ttft.p90")]),
        ({"slo": {"ttft": {}}}, [("missing-key", "slo.ttft")]),
        ({"arrivals": {"cv": 2}}, [("unknown-key", "arrivals.cv")]),
        (
            {"transfer": {"overlap": "all"}, "demand": 3},
            [("unknown-word", "transfer.overlap"), ("unknown-key", "demand")],
        ),
        ({"estimator": "mean-length", "local_prefill": "on_decode"}, [("not-supported", "local_prefill")]),
        ({"model": None}, [("missing-key", "model")]),
        ({"model": 3}, [("unknown-name", "model")]),
        ({"name": "a\0"}, [("bad-text", "name")]),
    ],
)
def test_what_does_not_belong_together(sections: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    assert sorted(places(changed(**sections))) == sorted(wanted)


def test_what_reads_well_is_checked_although_other_fields_do_not() -> None:
    scenario = changed(
        clusters={
            "prfaas": {"role": "prefill", "hardware": "TPU", "instances": 0},
            "pd": {"role": "pd", "hardware": "H20", "instances": "8"},
        },
        links=[{"from": "pd", "to": "prfaas", "bandwidth": 5}],
        baseline={"hardware": "CPU", "instances": -1},
    )
    assert sorted(places(scenario)) == [
        ("bad-unit", "links[0].bandwidth"),
        ("out-of-range", "baseline.instances"),
        ("out-of-range", "clusters.prfaas.instances"),
        ("unknown-hardware", "baseline.hardware"),
        ("unknown-hardware", "clusters.prfaas.hardware"),
        ("unusable-link", "links[0]"),
        ("wrong-type", "clusters.pd.instances"),
    ]


def test_a_role_in_doubt_blames_no_link() -> None:
    scenario = changed(clusters=GOOD["clusters"] | {"pd": GOOD["clusters"]["pd"] | {"role": "decode"}})
    assert places(scenario) == [("unknown-word", "clusters.pd.role")]


def test_overrides() -> None:
    scenario = load_scenario(
        GOOD,
        {
            "clusters.pd.instances": "10",
            "links.0.bandwidth": "25Gbps",
            "slo.tokens_per_s": "20",
            "baseline.instances": "12",
            "workload": "{input_tokens: 1K, output_tokens: 64}",
        },
    )
    assert scenario.link is not None
    assert (scenario.pd.instances, scenario.link.bandwidth_bytes_per_s) == (10, 25e9 / 8)
    assert (scenario.tokens_per_s, scenario.baseline.instances) == (20, 12)
    assert scenario.workload.input_tokens.mean == 1024
    assert GOOD["clusters"]["pd"]["instances"] == 8


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({"clusters.pd.instances": "0"}, [("out-of-range", "--set clusters.pd.instances")]),
        ({"clusters.pd.instnces": "9"}, [("unknown-key", "--set clusters.pd.instnces")]),
        ({"clusters.prfass.instances": "9"}, [("unknown-name", "--set clusters.prfass")]),
        ({"links[0].bandwidth": "100 GB"}, [("bad-unit", "--set links[0].bandwidth")]),
        ({"links.1.bandwidth": "1Gbps"}, [("bad-override", "--set links.1.bandwidth")]),
        ({"model.name": "x"}, [("bad-override", "--set model.name")]),
        ({"basline.instances": "3"}, [("unknown-key", "--set basline")]),
        ({"slo.tokens_per_s": ""}, [("wrong-type", "--set slo.tokens_per_s")]),
        ({"slo.tokens_per_s": "[", "name": "]"}, [("not-yaml", "--set slo.tokens_per_s"), ("not-yaml", "--set name")]),
        (
            {"slo.tokens_per_s": "0", "estimator": "x"},
            [("out-of-range", "--set slo.tokens_per_s"), ("unknown-word", "--set estimator")],
        ),
    ],
)
def test_overrides_that_are_wrong(overrides: dict[str, str], wanted: list[tuple[str, str]]) -> None:
    assert places(GOOD, overrides) == wanted


def test_a_cluster_added_by_overrides() -> None:
    alone = changed(clusters={"pd": GOOD["clusters"]["pd"]}, links=None)
    added = {"role": "prefill", "hardware": "H200", "instances": "3"}
    scenario = load_scenario(
        alone,
        {f"clusters.west.{key}": value for key, value in added.items()}
        | {"links": "[{from: west, to: pd, bandwidth: 1Gbps}]"},
    )
    assert scenario.remote == Cluster("west", "prefill", "H200", 3)
    (problem,) = problems(alone, {"clusters.west.hardware": "H200"})
    assert problem.fix == "to add it, set role, instances as well"


def test_a_scenario_is_what_it_was_before(tmp_path: Path) -> None:
    """Reading changes nothing in the mapping it is given."""
    before = copy.deepcopy(GOOD)
    assert isinstance(load_scenario(GOOD, {"clusters.pd.instances": "9"}), Scenario)
    assert before == GOOD
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump(GOOD))
    assert load_scenario(str(tmp_path / "fleet.yaml")).pd == load_scenario(GOOD).pd
