"""Study files: the rows they give, against itertools and numpy, and what is said of those that are wrong."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import warnings
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.study.axes import StudyRows
from prfaas_opt.study.definition import STUDY, read_study
from prfaas_opt.study.rows import UNSET
from prfaas_opt.study.sampling import points
from prfaas_opt.units import parse_bandwidth


def rows_of(*axes: dict[str, Any], **more: Any) -> StudyRows:
    return read_study({"axes": list(axes), **more})


def all_of(rows: StudyRows) -> list[tuple[Any, ...]]:
    return rows.values(0, len(rows))


def refusal(text: str, tmp_path: Path) -> tuple[Problem, ...]:
    file = tmp_path / "s.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_study(file)
    return tuple(
        Problem(each.code, each.where.replace(str(file), "s.yaml"), each.message, each.fix)
        for each in caught.value.problems
    )


COUNTS = {"clusters.pd.instances": [2, 4, 8], "clusters.prfaas.instances": [1, 2]}


def test_a_grid_is_every_combination_its_last_field_fastest() -> None:
    rows = rows_of({"grid": COUNTS})
    assert rows.fields == tuple(COUNTS)
    assert all_of(rows) == list(itertools.product(*COUNTS.values()))


def test_blocks_multiply_and_the_last_varies_fastest() -> None:
    zipped = {"slo.tokens_per_s": [30, 40], "links.0.rtt": ["1ms", "2ms"]}
    listed = [{"model": "kimi-linear"}, {"model": "internal-1t", "residency.stay_share": 0.1}]
    rows = rows_of({"grid": COUNTS}, {"zip": zipped}, {"list": listed})
    expected = [
        (*a, *b, *c)
        for a in itertools.product(*COUNTS.values())
        for b in zip(*zipped.values(), strict=True)
        for c in (("kimi-linear", UNSET), ("internal-1t", 0.1))
    ]
    assert len(rows) == len(expected) == 24
    assert all_of(rows) == expected
    assert rows.fields == (*COUNTS, *zipped, "model", "residency.stay_share")


@given(
    st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True), min_size=1, max_size=3),
    st.integers(1, 7),
    st.data(),
)
@settings(max_examples=60)
def test_any_range_of_rows_is_that_part_of_all_rows(values: list[list[int]], count: int, data: st.DataObject) -> None:
    fields = ["clusters.pd.instances", "clusters.prfaas.instances", "links.0.flows"]
    sample: dict[str, Any] = {"count": count, "seed": 3, "over": {"slo.tokens_per_s": {"from": 10, "to": 50}}}
    sample["method"] = data.draw(st.sampled_from(["sobol", "random"]))
    axes: list[dict[str, Any]] = [{"grid": {field: column}} for field, column in zip(fields, values, strict=False)]
    axes.insert(data.draw(st.integers(0, len(axes))), {"sample": sample})
    rows = rows_of(*axes)
    whole = all_of(rows)
    assert len(whole) == len(rows) == count * math.prod(map(len, values))
    assert len(set(whole)) == len(whole)
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    assert pickle.loads(pickle.dumps(rows)).values(start, stop) == whole[start:stop]


def test_a_value_of_a_grid_is_planned_once() -> None:
    rows = rows_of({"grid": {"links.0.bandwidth": ["1Gbps", "7Gbps", {"from": "1Gbps", "to": "3Gbps", "count": 3}]}})
    assert [value for (value,) in all_of(rows)] == ["1Gbps", "7Gbps", "2Gbps", "3Gbps"]


def test_fields_have_one_spelling() -> None:
    assert rows_of({"grid": {"links[0].bandwidth": ["1Gbps"]}}).fields == ("links.0.bandwidth",)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"from": 2, "to": 16, "count": 3}, [2, 9, 16]),
        ({"from": 2, "to": 5, "step": 1}, [2, 3, 4, 5]),
        ({"from": 2, "to": 8, "step": 4}, [2, 6]),
        ({"from": 1, "to": 16, "count": 9, "spacing": "log"}, [1, 2, 3, 4, 6, 8, 11, 16]),
    ],
)
def test_ranges_of_whole_numbers_hold_whole_numbers(written: dict[str, Any], wanted: list[int]) -> None:
    found = [value for (value,) in all_of(rows_of({"grid": {"clusters.pd.instances": written}}))]
    assert found == wanted
    assert all(type(value) is int for value in found)


@pytest.mark.parametrize(
    ("low", "high", "spacing", "unit"),
    [("1Gbps", "400Gbps", "log", "Gbps"), ("100Mbps", "2Gbps", "linear", "Mbps"), ("1 GB/s", "20 GB/s", "log", "GB/s")],
)
def test_ranges_of_quantities_keep_their_unit(low: str, high: str, spacing: str, unit: str) -> None:
    written = {"from": low, "to": high, "count": 7, "spacing": spacing}
    found = [value for (value,) in all_of(rows_of({"grid": {"links.0.bandwidth": written}}))]
    space = np.geomspace if spacing == "log" else np.linspace
    expected = np.asarray(space(parse_bandwidth(low), parse_bandwidth(high), 7))
    assert all(value.endswith(unit) for value in found)
    np.testing.assert_allclose([parse_bandwidth(value) for value in found], expected, rtol=1e-5)
    assert parse_bandwidth(found[0]) == parse_bandwidth(low)
    assert parse_bandwidth(found[-1]) == pytest.approx(parse_bandwidth(high), rel=1e-12)


def test_lengths_and_shares_have_ranges_too() -> None:
    base = {**yaml.safe_load(Path("prfaas_opt/io/case_study.yaml").read_text()), "workload": {"input_tokens": "8K"}}
    base["workload"]["output_tokens"] = 1024
    lengths = {"from": "1K", "to": "4K", "step": "1K"}
    found = all_of(rows_of({"zip": {"workload.output_tokens": lengths}}, base=base))
    assert found == [(1024,), (2048,), (3072,), (4096,)]
    shares = {"from": 0.5, "to": 1, "step": 0.25}
    assert all_of(rows_of({"grid": {"links.0.max_utilization": shares}})) == [(0.5,), (0.75,), (1.0,)]


def test_sobol_points_are_those_of_one_run_of_scipy() -> None:
    from scipy.stats import qmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected: NDArray[np.float64] = np.asarray(
            qmc.Sobol(3, scramble=True, rng=np.random.default_rng(11)).random(300), np.float64
        )
    assert np.array_equal(points("sobol", 3, 11, 0, 300), expected)
    assert np.array_equal(points("sobol", 3, 11, 250, 300), expected[250:])
    assert np.array_equal(points("sobol", 3, 11, 17, 40), expected[17:40])
    assert not np.array_equal(points("sobol", 3, 12, 0, 300), expected)


def test_random_points_are_uniform_and_found_by_their_number() -> None:
    whole = points("random", 2, 5, 0, 5000)
    assert np.array_equal(points("random", 2, 5, 1000, 3100), whole[1000:3100])
    assert not np.array_equal(points("random", 2, 6, 0, 5000), whole)
    assert 0 <= whole.min() < whole.max() < 1
    # The mean of 5000 uniform numbers is within 0.5 +- 0.02 but for five standard deviations.
    np.testing.assert_allclose(whole.mean(axis=0), 0.5, atol=0.021)
    assert abs(float(np.asarray(np.corrcoef(whole.T))[0, 1])) < 0.08
    assert len(np.unique(whole)) == whole.size


@pytest.mark.parametrize("method", ["sobol", "random"])
def test_a_sample_covers_its_ranges(method: str) -> None:
    over = {
        "links.0.bandwidth": {"from": "1Gbps", "to": "400Gbps", "spacing": "log"},
        "clusters.pd.instances": {"from": 2, "to": 16},
        "links.0.flows": {"from": 1, "to": 64, "spacing": "log"},
        "model": ["internal-1t", "kimi-linear"],
    }
    rows = rows_of({"sample": {"method": method, "count": 4096, "seed": 1, "over": over}})
    bandwidths, instances, flows, models = zip(*all_of(rows), strict=True)
    rates = np.array([parse_bandwidth(each) for each in bandwidths])
    assert rates.min() >= parse_bandwidth("1Gbps")
    assert rates.max() <= parse_bandwidth("400Gbps")
    assert abs(np.mean(np.log(rates / parse_bandwidth("1Gbps")) / math.log(400)) - 0.5) < 0.03
    assert set(instances) == set(range(2, 17))
    assert max(map(instances.count, range(2, 17))) < 1.5 * 4096 / 15
    assert set(flows) >= {1, 2, 3, 4}
    assert max(flows) <= 64
    assert abs(models.count("kimi-linear") / 4096 - 0.5) < 0.05
    assert all(type(value) is int for value in (*instances, *flows))


def test_a_million_rows_are_not_made_before_they_are_asked_for() -> None:
    import tracemalloc

    rows = rows_of({"sample": {"count": 1_000_000, "over": {"slo.tokens_per_s": {"from": 10, "to": 50}}}})
    rows.values(0, 10)
    tracemalloc.start()
    last = rows.values(999_000, 1_000_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(last) == 1000
    assert peak < 5e6


def test_the_base_is_the_case_study_a_path_or_a_mapping(tmp_path: Path) -> None:
    case_study = Path("prfaas_opt/io/case_study.yaml").read_text(encoding="utf-8")
    (tmp_path / "fleet.yaml").write_text(case_study.replace("instances: 8", "instances: 9"), encoding="utf-8")
    study = tmp_path / "study.yaml"
    axes = "axes: [{grid: {links.0.bandwidth: [1Gbps]}}]\n"
    study.write_text(axes)
    assert read_study(study).base.data["clusters"]["pd"]["instances"] == 8
    assert read_study(study).name == "study"
    study.write_text(f"base: fleet.yaml\nname: n\n{axes}")
    assert read_study(study).base.data["clusters"]["pd"]["instances"] == 9
    assert read_study(study).name == "n"
    study.write_text(f"base: fleet.yaml\nset: {{clusters.pd.instances: 10}}\nobjective: cost\n{axes}")
    rows = read_study(study, overrides={"clusters.prfaas.instances": "3"})
    assert rows.base.data["clusters"]["pd"]["instances"] == 10
    assert rows.base.data["clusters"]["prfaas"]["instances"] == 3
    assert rows.objective == "cost"
    study.write_text(axes)
    assert read_study(study, base=tmp_path / "fleet.yaml").base.data["clusters"]["pd"]["instances"] == 9
    inside = "\n".join(f"  {line}" for line in case_study.replace("instances: 8", "instances: 7").splitlines())
    study.write_text(f"base:\n{inside}\n{axes}")
    assert read_study(study).base.data["clusters"]["pd"]["instances"] == 7


def test_an_error_in_a_base_that_stands_in_the_study_names_its_line(tmp_path: Path) -> None:
    text = "axes: [{grid: {links.0.bandwidth: [1Gbps]}}]\nbase:\n  model: internal-1t\n  workload: prfaas-case-study\n"
    text += "  clusters: {pd: {role: pd, hardware: H20, instances: eight}}\n"
    text += "  links: [{from: a, to: pd, bandwidth: 1Gbps}]\n"
    (problem,) = refusal(text, tmp_path)
    assert problem.where == "s.yaml:5 clusters.pd.instances"


BROKEN = """name: bad
set: {clusters.pd.instnces: 10}
axes:
  - grid:
      links.0.bandwidth: [1Gbps, 12 parsecs, {from: 10Gbps, to: 4Gbps, count: 9}]
      model: [internal-1t, kimi-liner]
      model.name: {from: 1, to: 2, count: 2}
  - zip: {clusters.prfaas.instances: [2, 4, 6.5], slo.tokens_per_s: [30, 40]}
  - lst: [{workload: prfaas-case-study}]
  - sample: {count: 10, sed: 7, over: {links.0.rtt: {from: 1ms, to: 9ms, count: 3}, links.0.flows: 3}}
objectiv: cost
"""


def test_all_errors_come_at_once_each_with_its_line(tmp_path: Path) -> None:
    found = [(each.where, each.code, each.fix) for each in refusal(BROKEN, tmp_path)]
    assert found == [
        ("s.yaml:2 set.clusters.pd.instnces", "unknown-key", "did you mean instances?"),
        ("s.yaml:5 axes[0].grid.links.0.bandwidth[1]", "bad-unit", 'write it as "100Gbps" or "12.5GB/s"'),
        ("s.yaml:5 axes[0].grid.links.0.bandwidth[2].to", "out-of-range", "swap the two"),
        ("s.yaml:6 axes[0].grid.model[1]", "unknown-name", "did you mean kimi-linear?"),
        ("s.yaml:7 axes[0].grid.model.name", "no-range", "list the values: [..., ...]"),
        ("s.yaml:8 axes[1].zip.clusters.prfaas.instances[2]", "wrong-type", "write 6 or 7"),
        ("s.yaml:9 axes[2].lst", "unknown-key", "did you mean list?"),
        ("s.yaml:10 axes[3].sample.sed", "unknown-key", "did you mean seed?"),
        (
            "s.yaml:10 axes[3].sample.over.links.0.rtt.count",
            "misplaced-key",
            "write it as sample: {count: ..., over: ...}",
        ),
        (
            "s.yaml:10 axes[3].sample.over.links.0.flows",
            "wrong-type",
            "write {from: ..., to: ...}, or a list of values to choose from",
        ),
        ("s.yaml:11 objectiv", "unknown-key", "did you mean objective?"),
    ]


@pytest.mark.parametrize(
    ("axes", "code", "says"),
    [
        ("- grid: {clusters.pb.instances: [1]}", "unknown-name", "there is no clusters.pb to change"),
        ("- grid: {links.3.bandwidth: [1Gbps]}", "bad-override", "links is a list of 1, which has no 3"),
        ("- grid: {nonsense: [1]}", "unknown-key", "a scenario has no field nonsense"),
        ("- grid: {name.x: [1]}", "unknown-key", "name has no field x"),
        ("- grid: {links.bandwidth: [1Gbps]}", "unknown-key", "links is a list: write links.0.bandwidth"),
        ("- grid: {links.bandwith: [1Gbps]}", "unknown-key", "links is a list: write links.0.bandwidth"),
        ("- grid: {link.bandwidth: [1Gbps]}", "unknown-key", "did you mean links.0.bandwidth?"),
        ("- grid: {cluster.pd.instances: [1]}", "unknown-key", "did you mean clusters.pd.instances?"),
        ("- grid: {objective: [cost]}", "unknown-key", "write it beside axes; it is the same for all rows"),
        ("- grid: {clusters.pd.instances: []}", "too-short", "found an empty list"),
        ("- grid: {clusters.pd.instances: [1, null]}", "wrong-type", "found nothing, expected a whole number"),
        ("- grid: {clusters.pd.role: {from: 1, to: 2, count: 2}}", "no-range", "it holds one of prefill, pd"),
        ("- grid: {slo.tokens_per_s: {from: 1, to: 2}}", "missing-key", "is missing"),
        ("- grid: {slo.tokens_per_s: {from: 1, to: 2, count: 1}}", "out-of-range", "2 to 1,000,000"),
        ("- grid: {slo.tokens_per_s: {from: 1, to: 2, count: 3, step: 1}}", "ambiguous", "stands beside count"),
        ("- grid: {slo.tokens_per_s: {from: 1, to: 2, step: 1, spacing: log}}", "ambiguous", "spacing: log"),
        ("- grid: {slo.tokens_per_s: {from: 1, to: 1, count: 3}}", "out-of-range", "expected more than from"),
        ("- grid: {links.0.rtt: {from: 0, to: 1s, count: 3, spacing: log}}", "out-of-range", "positive value"),
        ("- grid: {links.0.rtt: {from: 0, to: 1h, step: 1us}}", "out-of-range", "at most 1,000,000"),
        ("- grid: {links.0.rtt: {from: 0, to: 1s, step: 0}}", "out-of-range", "expected a positive step"),
        ("- zip: {clusters.pd.instances: [1, 2], slo.tokens_per_s: [30]}", "length-mismatch", "1 value of slo"),
        ("- grid: {model: [kimi-linear]}\n- list: [{model: internal-1t}]", "ambiguous", "axes[0] sets too"),
        ("- grid: {slo: [{tokens_per_s: 3}], slo.tokens_per_s: [3]}", "ambiguous", "overlaps slo"),
        ("- grid: {links.0.rtt: [1ms], 'links[0].rtt': [2ms]}", "duplicate-key", "stands twice"),
        ("- sample: {count: 0, over: {slo.tokens_per_s: {from: 1, to: 2}}}", "out-of-range", "found 0"),
        ("- sample: {count: 9, method: halton, over: {slo.tokens_per_s: {from: 1, to: 2}}}", "unknown-word", "sobol"),
        ("- sample: {count: 9, over: {model: {from: 1, to: 2}}}", "no-range", "found a range"),
        ("- {grid: {slo.tokens_per_s: [3]}, zip: {links.0.flows: [3]}}", "ambiguous", "found grid and zip"),
        (
            "- sample: {count: 1000000000, over: {links.0.rtt: {from: 1s, to: 2s}}}\n- grid: {links.0.flows: [1, 2]}",
            "too-many",
            "2,000,000,000 rows",
        ),
        ("{grid: {slo.tokens_per_s: [3]}}", "wrong-type", "found a mapping"),
        ("{slo.tokens_per_s: [3]}", "wrong-type", "write axes: [{grid: {slo.tokens_per_s: ...}}]"),
        ("- {slo.tokens_per_s: [3], links.0.flows: [2]}", "missing-key", "write grid: {slo.tokens_per_s: ...}"),
        ("[]", "too-short", "found an empty list"),
    ],
)
def test_what_can_never_be_right_is_an_error_of_the_study(axes: str, code: str, says: str, tmp_path: Path) -> None:
    (problem,) = refusal(f"axes:\n{axes if axes[0] == '-' else ' ' + axes}\n", tmp_path)
    assert problem.code == code
    assert says in f"{problem.message} {problem.fix}"
    assert problem.where.startswith("s.yaml:")


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("", "empty-file", "is empty, expected a study"),
        ("model: kimi-linear\nclusters: {}\n", "wrong-file", "is a scenario file, expected a study"),
        ("profiles: []\n", "wrong-file", "is a model file, expected a study"),
        ("name: x\n", "missing-key", "is missing"),
        ("base: nowhere.yaml\naxes: [{grid: {slo.tokens_per_s: [3]}}]\n", "missing-file", "there is no scenario file"),
        (
            "base: kimi-linear\naxes: [{grid: {slo.tokens_per_s: [3]}}]\n",
            "missing-file",
            "write set: {model: kimi-linear}",
        ),
        ("base: n.yaml\naxes: [{grid: {slo.tokens_per_s: [3]}}]\n", "missing-file", "it starts at this file's folder"),
        ("grid: {slo.tokens_per_s: [3]}\n", "misplaced-key", "write axes: [{grid: ...}]"),
        ("base: [3]\naxes: [{grid: {slo.tokens_per_s: [3]}}]\n", "wrong-type", "found a list of 1"),
        ("set: {links.9.rtt: 1ms}\naxes: [{grid: {slo.tokens_per_s: [3]}}]\n", "bad-override", "which has no 9"),
        ("- a\n", "wrong-type", "found a list"),
    ],
)
def test_files_that_are_no_study(text: str, code: str, says: str, tmp_path: Path) -> None:
    (problem,) = refusal(text, tmp_path)
    assert problem.code == code
    assert says in f"{problem.message} {problem.fix}"


def test_a_study_is_no_scenario(tmp_path: Path) -> None:
    from prfaas_opt.api import load_scenario

    file = tmp_path / "s.yaml"
    file.write_text("axes: []\n")
    with pytest.raises(InputError, match="is a study file, expected a scenario"):
        load_scenario(file)


def test_names_of_models_are_those_beside_the_base(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    (folder / "models").mkdir(parents=True)
    shipped = Path("models/kimi-linear.yaml").read_text(encoding="utf-8")
    (folder / "models" / "mine.yaml").write_text(shipped, encoding="utf-8")
    case_study = Path("prfaas_opt/io/case_study.yaml").read_text(encoding="utf-8")
    (folder / "base.yaml").write_text(case_study, encoding="utf-8")
    study = tmp_path / "study.yaml"
    study.write_text("base: fleet/base.yaml\naxes: [{grid: {model: [mine, kimi-linear]}}]\n")
    assert all_of(read_study(study)) == [("mine",), ("kimi-linear",)]
    study.write_text("axes: [{grid: {model: [mine]}}]\n")
    with pytest.raises(InputError, match='there is no model "mine"'):
        read_study(study)


def test_values_that_are_mappings_stay_as_they_are() -> None:
    links = [[{"from": "prfaas", "to": "pd", "bandwidth": "1Gbps"}]]
    assert all_of(rows_of({"grid": {"links": links}})) == [(links[0],)]
    lengths = {"name": "w", "input_tokens": {"distribution": "constant", "value": "8K"}, "output_tokens": 10}
    assert all_of(rows_of({"list": [{"workload": lengths}]})) == [(lengths,)]
    link = {"from": "prfaas", "to": "pd", "bandwidth": "1Gbps"}
    assert all_of(rows_of({"grid": {"links.0": link}})) == [(link,)]


def test_the_schema_takes_what_is_read() -> None:
    validator = jsonschema.Draft202012Validator(STUDY.schema())
    good = {
        "name": "x",
        "base": "scenario.yaml",
        "set": {"clusters.pd.instances": 10},
        "objective": "throughput",
        "axes": [
            {"grid": {"links.0.bandwidth": ["1Gbps", {"from": "1Gbps", "to": "4Gbps", "count": 3}], "model": "a"}},
            {"zip": {"clusters.pd.instances": [8, 8]}},
            {"list": [{"model": "a"}]},
            {"sample": {"count": 3, "over": {"slo.tokens_per_s": {"from": 1, "to": 2}}}},
        ],
    }
    validator.validate(good)
    wrong: list[dict[str, Any]] = [{}, {"axes": []}, {"axes": [{"grd": {}}]}]
    for bad in (*wrong, good | {"objective": "speed"}, good | {"nme": "x"}):
        assert not validator.is_valid(bad)


def test_endpoints_are_checked_as_the_field_is() -> None:
    with pytest.raises(InputError, match=r"grid\.clusters\.pd\.instances\.from: found 0"):
        rows_of({"grid": {"clusters.pd.instances": {"from": 0, "to": 4, "count": 3}}})
    with pytest.raises(InputError, match=r"grid\.links\.0\.rtt\.to: found \"2h\""):
        rows_of({"grid": {"links.0.rtt": {"from": "1ms", "to": "2h", "count": 3}}})


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(2, 40),
    st.sampled_from(["linear", "log"]),
    st.sampled_from(["links.0.flows", "clusters.pd.price_per_gpu_hour"]),
)
@settings(max_examples=150)
def test_ranges_are_numpys_to_the_digits_that_they_keep(
    low: int, more: int, count: int, spacing: str, field: str
) -> None:
    written = {"from": low, "to": low + more, "count": count, "spacing": spacing}
    found = [value for (value,) in all_of(rows_of({"grid": {field: written}}))]
    space = np.geomspace if spacing == "log" else np.linspace
    expected = np.asarray(space(low, low + more, count))
    if field == "links.0.flows":
        assert sorted(set(found)) == found
        assert (found[0], found[-1]) == (low, low + more)
        assert all(np.abs(expected - each).min() <= 0.5 + 1e-6 for each in found)
        assert max(np.abs(expected[:, None] - np.array(found)).min(axis=1)) <= 0.5 + 1e-6
    else:
        assert len(found) <= count
        assert max(np.abs(expected[:, None] / np.array(found) - 1).min(axis=1)) <= 1e-5


KEYS = ["axes", "base", "set", "objective", "grid", "zip", "list", "sample", "over", "count", "seed", "method"]
KEYS += [
    "from",
    "to",
    "step",
    "spacing",
    "model",
    "links.0.bandwidth",
    "clusters.pd.instances",
    "slo",
    "links",
    "",
    "x.y",
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**20),
    st.floats(),
    st.sampled_from(["1Gbps", "internal-1t", "log", "sobol", "", "\x00", "12 parsecs", "1e999", "../x.yaml"]),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, min_size=1, max_size=4)
    ),
    max_leaves=25,
)


GOOD: dict[str, Any] = {
    "set": {"clusters.pd.instances": 10},
    "objective": "throughput",
    "axes": [
        {"grid": {"links.0.rtt": ["1ms", {"from": "1ms", "to": "9ms", "count": 3}], "model": ["internal-1t"]}},
        {"zip": {"clusters.prfaas.instances": [8, 9], "links.0.flows": {"from": 1, "to": 2, "step": 1}}},
        {"list": [{"slo": {"tokens_per_s": 30}}, {"workload": "prfaas-case-study"}]},
        {"sample": {"count": 3, "seed": 1, "over": {"links.0.bandwidth": {"from": "1Gbps", "to": "9Gbps"}}}},
    ],
}


def paths_in(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(each for key, value in items for each in paths_in(value, (*path, key)))]


@given(st.sampled_from(paths_in(GOOD)[1:]), ANYTHING, st.one_of(st.none(), st.sampled_from(KEYS)))
@settings(max_examples=600)
def test_whatever_stands_in_a_study_is_read_or_refused_in_words(
    path: tuple[Any, ...], value: Any, renamed: str | None
) -> None:
    study = copy.deepcopy(GOOD)
    holder = study
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    if renamed is not None and isinstance(holder, dict):
        holder[renamed] = holder.pop(path[-1])
    try:
        rows = read_study(study)
    except InputError as error:
        problems = error.problems
    else:
        problems = (Problem("none", "", "none"),)
        assert len(rows.values(0, min(3, len(rows)))) == min(3, len(rows))
    assert problems
    assert all(each.code and each.message for each in problems)
