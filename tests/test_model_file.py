"""Model files: what each form of a figure means, and what they may be put together of."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from prfaas_opt import schemas
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import plain_document
from prfaas_opt.io.loading import load_model, model_of
from prfaas_opt.profiles.model import Model, Provenance

GOOD: dict[str, Any] = {
    "name": "m",
    "kv_cache": {"lengths_tokens": [1024, 8192], "mib": [200, 300]},
    "kv_cache_provenance": "measured, by us",
    "profiles": [
        {
            "hardware": "H200",
            "gpus_per_instance": 8,
            "prefill": {"lengths_tokens": [1024, 4096, 8192], "latency_s": [0.4, 0.6, 1.2]},
            "decode": {"batch": 20, "step_s": 0.025},
            "provenance": {"prefill": "paper, table 5", "decode": "assumed"},
        }
    ],
}


def changed(path: str = "", value: Any = None, **more: Any) -> dict[str, Any]:
    """The good model with one thing of its profile set, or left out where that is None."""
    model = copy.deepcopy(GOOD) | more
    *above, last = path.split(".")
    holder = model["profiles"][0]
    for key in above:
        holder = holder[key]
    if value is not None:
        holder[last] = value
    else:
        holder.pop(last, None)
    return model


def read(data: Any) -> Model:
    return model_of(plain_document(data, "m"))


def problems(data: Any) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        read(data)
    return caught.value.problems


def places(data: Any) -> list[tuple[str, str]]:
    return [(problem.code, problem.where.removeprefix("m ")) for problem in problems(data)]


def latency(prefill: dict[str, Any], length: float) -> float:
    return read(changed("prefill", prefill)).profiles[0].prefill_s(length)


def size(kv_cache: dict[str, Any], length: float) -> float:
    return read(changed(kv_cache=kv_cache)).profiles[0].kv_bytes(length)


def test_the_good_model() -> None:
    model = read(GOOD)
    profile = model.profile("h200")
    assert profile is not None
    assert (model.name, model.hardware, model.warnings) == ("m", ("H200",), ())
    assert (profile.gpus_per_instance, profile.engine) == (8, "")
    assert profile.decode is not None
    assert (profile.decode.batches, profile.decode.steps_s) == ((20,), (0.025,))
    assert profile.provenance == {
        "prefill": Provenance("paper", "table 5"),
        "kv_cache": Provenance("measured", "by us"),
        "decode": Provenance("assumed", ""),
    }


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1e3), ("us", 1e6)])
def test_latency_in_each_unit(unit: str, factor: float) -> None:
    table = {"lengths_tokens": ["1K", "8K"], f"latency_{unit}": [0.4 * factor, 0.8 * factor]}
    assert latency(table, 1024) == pytest.approx(0.4)
    assert latency(table, 2048) == pytest.approx(0.4 * 2 ** (1 / 3))
    assert latency(table | {"interpolation": "linear"}, 4608) == pytest.approx(0.6)
    assert latency(table, 10) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("unit", "factor"), [("bytes", 1), ("kib", 2**10), ("mib", 2**20), ("gib", 2**30), ("mb", 1e6), ("gb", 1e9)]
)
def test_size_in_each_unit(unit: str, factor: float) -> None:
    table = {"lengths_tokens": [1024, 3072], unit: [10, 30]}
    assert size(table, 2048) == pytest.approx(20 * factor)
    assert size(table, 512) == pytest.approx(5 * factor)


def test_a_formula() -> None:
    formula = {"quadratic": {"a_s": 0.1, "b_s_per_token": 1e-4, "c_s_per_token2": 1e-9}, "range_tokens": [100, "8K"]}
    assert latency(formula, 1000) == pytest.approx(0.1 + 0.1 + 0.001)
    assert latency(formula, 50) == latency(formula, 100)
    assert read(changed("prefill", formula)).profiles[0].prefill_s.upper == 8192


def test_extrapolation_is_stated() -> None:
    table = {"lengths_tokens": [1024, 2048], "latency_s": [0.5, 1.0]}
    assert read(changed("prefill", table)).profiles[0].prefill_s.upper == 2048
    assert latency(table | {"extrapolate_to_tokens": "8K"}, 8192) == pytest.approx(4.0)


def test_latency_from_kv_throughput() -> None:
    table = {"lengths_tokens": [1024, 8192], "kv_throughput_gbps": [8, 4]}
    assert latency(table, 1024) == pytest.approx(200 * 2**20 / 1e9)
    assert latency(table, 8192) == pytest.approx(300 * 2**20 / 0.5e9)


def test_size_from_layers() -> None:
    layers = {
        "layers": [{"attention": "mla", "count": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}],
        "element_bytes": {"kv": 2},
        "max_tokens": "128K",
    }
    assert size(layers, 1024) == pytest.approx(68.625 * 2**20)


def test_latency_scaled_by_another_model() -> None:
    model = copy.deepcopy(GOOD)
    scaled = copy.deepcopy(model["profiles"][0]) | {
        "hardware": "H20",
        "prefill": {"scaled_from": "h200", "by_model": "internal-1t"},
    }
    model["profiles"].insert(0, scaled)
    other = load_model("internal-1t")
    h20, h200 = other.profile("H20"), other.profile("H200")
    assert h20 is not None
    assert h200 is not None
    first, second = read(model).profiles
    for length in (1024.0, 3000.0, 8192.0):
        ratio = h20.prefill_s(length) / h200.prefill_s(length)
        assert first.prefill_s(length) == pytest.approx(second.prefill_s(length) * ratio)


def test_a_profile_may_have_its_own_sizes() -> None:
    own = {"lengths_tokens": [1024, 8192], "mib": [100, 100]}
    model = changed("kv_cache", own)
    model["profiles"][0]["provenance"]["kv_cache"] = "derived, by hand"
    profile = read(model).profiles[0]
    assert profile.kv_bytes(5000) == 100 * 2**20
    assert profile.provenance["kv_cache"] == Provenance("derived", "by hand")
    del model["kv_cache"], model["kv_cache_provenance"]
    assert read(model).profiles[0].kv_bytes(5000) == 100 * 2**20


def said(*figures: str, **fields: Any) -> dict[str, Any]:
    """The good model with some fields of its profile set, and a provenance of some figures."""
    model = copy.deepcopy(GOOD)
    model["profiles"][0] |= fields
    model["profiles"][0]["provenance"] |= dict.fromkeys(figures, "measured, by us")
    return model


BY_CONTEXT = {"batch": [8, 16], "context_tokens": ["1K", "3K"], "step_ms": [[20, 25], [30, 45]]}
FITTED = {
    "fitted": {"base_s": 0.01, "per_request_s": 1e-4, "per_context_token_s": 1e-7},
    "batch_range": [1, 101],
    "context_range_tokens": [1000, "128K"],
}
OCCUPIED = {"lengths_tokens": [1024, 4096], "latency_ms": [400, 800], "occupancy_ms": [200, 600]}
QUADRATIC = {"a_s": 0.1, "b_s_per_token": 1e-4, "c_s_per_token2": 1e-9}
OCCUPIED_QUADRATIC = {
    "quadratic": QUADRATIC,
    "occupancy_quadratic": QUADRATIC | {"b_s_per_token": 5e-5},
    "range_tokens": [100, "8K"],
}


def test_decode_by_context() -> None:
    decode = read(changed("decode", BY_CONTEXT | {"accepted_tokens": 1.8})).profiles[0].decode
    assert decode is not None
    assert (decode.batches, decode.contexts_tokens, decode.accepted_tokens) == ((8, 16), (1024, 3072), 1.8)
    assert decode.columns_s == ((0.02, 0.03), (0.025, 0.045))
    assert decode.at(2048).step_s(12) == pytest.approx((0.02 + 0.025 + 0.03 + 0.045) / 4)


def test_a_fitted_decode_step() -> None:
    decode = read(changed("decode", FITTED)).profiles[0].decode
    assert decode is not None
    assert (decode.batches, decode.contexts_tokens, decode.accepted_tokens) == ((1, 101), (1000, 131072), 1)
    assert decode.at(5000).step_s(51) == pytest.approx(0.01 + 51 * (1e-4 + 5e-4))


def test_without_speculation_a_step_gives_a_token() -> None:
    decode = read(GOOD).profiles[0].decode
    assert decode is not None
    assert (decode.accepted_tokens, decode.contexts_tokens) == (1, ())


@pytest.mark.parametrize(
    ("unit", "factor"), [("bytes", 1), ("kib", 2**10), ("mib", 2**20), ("gib", 2**30), ("mb", 1e6), ("gb", 1e9)]
)
def test_memory_in_each_unit(unit: str, factor: float) -> None:
    memory = {f"usable_{unit}": 1e12 / factor, f"weights_{unit}": 6e11 / factor}
    profile = read(said("memory", memory=memory)).profiles[0]
    assert profile.memory is not None
    assert (profile.memory.usable_bytes, profile.memory.weights_bytes) == pytest.approx((1e12, 6e11))
    assert profile.provenance["memory"] == Provenance("measured", "by us")


def test_what_is_not_stated_of_an_instance() -> None:
    profile = read(GOOD).profiles[0]
    assert profile.memory is None
    assert profile.occupancy_s is profile.prefill_s
    assert profile.provenance.keys() == {"prefill", "kv_cache", "decode"}


def test_occupancy_beside_latency() -> None:
    profile = read(said("occupancy", prefill=OCCUPIED)).profiles[0]
    assert (profile.prefill_s(4096), profile.occupancy_s(4096)) == pytest.approx((0.8, 0.6))
    assert profile.occupancy_s(2048) == pytest.approx((0.2 * 0.6) ** 0.5), "joined as the latency is"
    assert profile.occupancy_s(10) == pytest.approx(0.2)
    assert profile.provenance["occupancy"] == Provenance("measured", "by us")
    further = read(said("occupancy", prefill=OCCUPIED | {"extrapolate_to_tokens": 4500})).profiles[0]
    assert further.occupancy_s.upper == 4500


def test_occupancy_by_a_formula() -> None:
    profile = read(said("occupancy", prefill=OCCUPIED_QUADRATIC)).profiles[0]
    assert (profile.prefill_s(1000), profile.occupancy_s(1000)) == pytest.approx((0.201, 0.151))
    assert profile.occupancy_s(10) == profile.occupancy_s(100)


def test_occupancy_of_all_the_latency_is_no_mistake() -> None:
    same = read(said("occupancy", prefill=OCCUPIED | {"occupancy_ms": [400, 800]})).profiles[0]
    assert same.occupancy_s(3000) == same.prefill_s(3000)
    formula = OCCUPIED_QUADRATIC | {"occupancy_quadratic": QUADRATIC}
    assert read(said("occupancy", prefill=formula)).profiles[0].occupancy_s(5000) > 0


def test_a_profile_scaled_from_one_with_occupancy_has_its_latency() -> None:
    model = said("occupancy", prefill=OCCUPIED)
    scaled = {"hardware": "H20", "prefill": {"scaled_from": "H200", "by_model": "internal-1t"}}
    model["profiles"].append(copy.deepcopy(GOOD["profiles"][0]) | scaled)
    first, second = read(model).profiles
    assert first.occupancy_s is not first.prefill_s
    assert second.occupancy_s is second.prefill_s
    assert second.prefill_s(4096) > first.prefill_s(4096)


def test_a_prefill_that_does_not_read_says_nothing_of_occupancy() -> None:
    broken = OCCUPIED | {"latency_ms": [400, -1]}
    for figures in ((), ("occupancy",)):
        assert places(said(*figures, prefill=broken)) == [("out-of-range", "profiles[0].prefill.latency_ms[1]")]


NEW_FORMS = {
    "by context": ("decode", BY_CONTEXT),
    "by context, speculative": ("decode", BY_CONTEXT | {"accepted_tokens": 1.8}),
    "a pair, speculative": ("decode", {"batch": 20, "step_s": 0.025, "accepted_tokens": 2}),
    "fitted": ("decode", FITTED),
    "memory": ("memory", {"usable_gb": 1128, "weights_gb": 620}),
    "occupancy": ("prefill", OCCUPIED),
    "occupancy by a formula": ("prefill", OCCUPIED_QUADRATIC),
    "fitted provenance": ("provenance", {"prefill": "fitted, to table 6", "decode": "fitted"}),
}
NO_FORMS = {
    "rows of text": ("decode", BY_CONTEXT | {"step_ms": [["fast"], [1]]}),
    "contexts alone": ("decode", {"batch": 8, "context_tokens": [1, 2]}),
    "no context": ("decode", BY_CONTEXT | {"context_tokens": []}),
    "less than a token": ("decode", {"batch": 20, "step_s": 0.025, "accepted_tokens": 0.9}),
    "two forms": ("decode", FITTED | {"step_s": 0.025}),
    "no range": ("decode", {key: value for key, value in FITTED.items() if key != "batch_range"}),
    "memory in two units": ("memory", {"usable_gb": 1128, "weights_gib": 620}),
    "no weights": ("memory", {"usable_gb": 1128}),
    "occupancy in another unit": ("prefill", OCCUPIED | {"occupancy_s": [0.2, 0.6]}),
    "occupancy alone": ("prefill", {"lengths_tokens": [1024, 4096], "occupancy_s": [0.2, 0.6]}),
    "hearsay": ("provenance", {"prefill": "hearsay"}),
}


@pytest.mark.parametrize("form", NEW_FORMS)
def test_the_schema_knows_the_form(form: str) -> None:
    field, value = NEW_FORMS[form]
    validator = jsonschema.Draft202012Validator(schemas.schema("model"))
    validator.validate(changed(field, value))
    figures = {"memory": ["memory"], "prefill": ["occupancy"]}.get(field, [])
    read(said(*figures, **{field: value}))


@pytest.mark.parametrize("form", NO_FORMS)
def test_the_schema_refuses(form: str) -> None:
    field, value = NO_FORMS[form]
    assert not jsonschema.Draft202012Validator(schemas.schema("model")).is_valid(changed(field, value))
    assert problems(changed(field, value))


def test_decode_tables() -> None:
    decode = read(changed("decode", {"batch": [8, 16], "step_ms": [20, 30]})).profiles[0].decode
    assert decode is not None
    assert (decode.batches, decode.steps_s) == ((8, 16), (0.02, 0.03))


@pytest.mark.parametrize(
    ("path", "value", "warning"),
    [
        ("prefill.latency_s", [0.4, 0.3, 1.2], "prefill latency falls from 1,024 to 4,096 tokens"),
        ("decode", {"batch": [8, 16], "step_s": [0.03, 0.02]}, "the decode step gets faster as the batch grows"),
        ("decode", BY_CONTEXT | {"step_ms": [[20, 35], [30, 34]]}, "the decode step gets faster as the batch grows"),
        ("decode", BY_CONTEXT | {"step_ms": [[20, 25], [40, 39]]}, "the decode step gets faster as the context grows"),
    ],
)
def test_doubtful_figures_are_warnings(path: str, value: Any, warning: str) -> None:
    (found,) = read(changed(path, value)).warnings
    assert warning in found


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("prefill.latency_s", [0.4, 0.6], [("length-mismatch", "profiles[0].prefill.latency_s")]),
        ("prefill.latency_s", [0.4, 4000, 1.2], [("implausible", "profiles[0].prefill.latency_s[1]")]),
        ("prefill.latency_s", [0.4, 0.6, 1e9], [("implausible", "profiles[0].prefill.latency_s[2]")]),
        ("prefill.latency_s", [1e-9, 0.6, 1.2], [("implausible", "profiles[0].prefill.latency_s[0]")]),
        ("prefill.extrapolate_to_tokens", 8192, [("out-of-range", "profiles[0].prefill.extrapolate_to_tokens")]),
        ("prefill.interpolation", "cubic", [("unknown-word", "profiles[0].prefill.interpolation")]),
        ("prefill.latency_ms", [1, 2, 3], [("ambiguous", "profiles[0].prefill")]),
        (
            "prefill",
            {"scaled_from": "H200", "by_model": "internal-1t"},
            [("unknown-hardware", "profiles[0].prefill.scaled_from")],
        ),
        ("decode.step_s", 1e6, [("implausible", "profiles[0].decode.step_s")]),
        ("decode", None, [("unused", "profiles[0].provenance.decode")]),
        ("provenance.decode", None, [("missing-key", "profiles[0].provenance.decode")]),
        ("provenance.prefill", "hearsay", [("wrong-type", "profiles[0].provenance.prefill")]),
        ("provenance.kv_cache", "measured", [("unused", "profiles[0].provenance.kv_cache")]),
        ("hardware", "", [("wrong-type", "profiles[0].hardware")]),
    ],
)
def test_refusals_in_a_profile(path: str, value: Any, wanted: list[tuple[str, str]]) -> None:
    assert places(changed(path, value)) == wanted


@pytest.mark.parametrize(
    ("kv_cache", "wanted"),
    [
        ({"lengths_tokens": [1024, 8192], "mib": [300, 200]}, [("falling-size", "kv_cache.mib[1]")]),
        ({"lengths_tokens": [1024, 8192], "mib": [1e-7, 2e-7]}, [("implausible", "kv_cache.mib[0]")]),
        ({"lengths_tokens": [1024, 8192], "gb": [1, 1e9]}, [("implausible", "kv_cache.gb[1]")]),
        (
            {
                "layers": [{"attention": "gqa", "count": 10**7, "kv_heads": 10**7, "head_dim_k": 1, "head_dim_v": 1}],
                "element_bytes": {"kv": 2},
                "max_tokens": 8192,
            },
            [("implausible", "kv_cache.layers")],
        ),
    ],
)
def test_refusals_of_sizes(kv_cache: Any, wanted: list[tuple[str, str]]) -> None:
    assert places(changed(kv_cache=kv_cache)) == wanted


def test_all_problems_come_at_once() -> None:
    model = changed("prefill.latency_s", [0.4, -1, 1.2])
    second = copy.deepcopy(GOOD["profiles"][0]) | {"hardware": "h200", "gpus_per_instance": 0}
    model["profiles"].append(second | {"provenance": {"prefill": "paper"}})
    del model["kv_cache_provenance"]
    assert sorted(places(model)) == [
        ("duplicate-key", "profiles[1].hardware"),
        ("missing-key", "kv_cache_provenance"),
        ("missing-key", "profiles[1].provenance.decode"),
        ("out-of-range", "profiles[0].prefill.latency_s[1]"),
        ("out-of-range", "profiles[1].gpus_per_instance"),
    ]


def test_a_profile_scaled_from_a_broken_one_is_not_blamed() -> None:
    model = changed("prefill.latency_s", [0.4, -1, 1.2])
    model["profiles"].append(
        copy.deepcopy(GOOD["profiles"][0])
        | {"hardware": "H20", "prefill": {"scaled_from": "H200", "by_model": "internal-1t"}}
    )
    assert places(model) == [("out-of-range", "profiles[0].prefill.latency_s[1]")]


def test_a_model_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.yaml").write_text(yaml.safe_dump(GOOD | {"name": "found in models/"}))
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(GOOD | {"name": "found by its path"}))
    assert load_model("mine", beside=tmp_path).name == "found in models/"
    assert load_model("other.yaml", beside=tmp_path).name == "found by its path"
    assert load_model(str(tmp_path / "other.yaml")).name == "found by its path"


def test_the_users_models_come_before_those_that_ship(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "config" / "prfaas-opt" / "models"
    folder.mkdir(parents=True)
    (folder / "internal-1t.yaml").write_text(yaml.safe_dump(GOOD))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    assert load_model("internal-1t").name == "m"
    assert load_model("kimi-linear").profiles[1].prefill_s(1024.0) > 0, "scaled by the internal-1t that ships with it"


@pytest.mark.parametrize(
    ("name", "code", "fix"),
    [
        ("internal-2t", "unknown-name", "did you mean internal-1t?"),
        ("INTERNAL-1T", "unknown-name", "did you mean internal-1t?"),
        ("x", "unknown-name", "use one of: deepseek-v3, "),
        ("org/kimi-linear", "missing-file", "did you mean the model kimi-linear?"),
        ("no/such.yaml", "missing-file", "check the path"),
        ("~nobody-of-this-name/x.yaml", "missing-file", "check the path"),
        ("x" * 5000 + ".yaml", "missing-file", "check the path"),
        ("a\0b/c", "missing-file", "check the path"),
        ("/", "missing-file", "check the path"),
    ],
)
def test_names_that_lead_nowhere(name: str, code: str, fix: str) -> None:
    with pytest.raises(InputError) as caught:
        load_model(name)
    (problem,) = caught.value.problems
    assert (problem.code, problem.where) == (code, "--model")
    assert problem.fix.startswith(fix)


def test_names_are_found_without_a_home_or_a_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert load_model("internal-1t").name == "internal-1t"
