"""What ``models derive`` refuses: every field that is missing or wrong is named, and nothing taken in its place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prfaas_opt.derive_api import derive_kv
from prfaas_opt.errors import InputError
from prfaas_opt.io.architectures import architectures
from prfaas_opt.io.loading import model_of
from prfaas_opt.io.yaml_file import parse_document
from tests.configs import CONFIGS, PROFILE, Config


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def to_file(config: Any, name: str = "config.json") -> Path:
        path = tmp_path / name
        path.write_text(config if isinstance(config, str) else json.dumps(config, indent=2), encoding="utf-8")
        return path

    return to_file


def errors(path: Path, **options: Any) -> dict[str, str]:
    """The code of each problem by its place, without the file's name."""
    with pytest.raises(InputError) as caught:
        derive_kv(path, **options)
    assert caught.value.exit_code == 4
    return {problem.where.removeprefix(str(path)).lstrip(":"): problem.code for problem in caught.value.problems}


def leaves(config: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def changed(config: Config, path: tuple[Any, ...], value: Any) -> Config:
    """A config with another value at a path, or without it where that is ``...``."""
    config = copy.deepcopy(config)
    inner = config
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return config


FALLS_BACK = {
    ("Llama-3.1-70B", "num_key_value_heads"),  # as many as heads, by its class
    ("MiMo-V2-Flash", "num_hidden_layers"),  # as many as the pattern has
    ("Qwen3.5-397B-A17B", "num_hidden_layers"),
    ("Gemma-3-12B", "num_key_value_heads"),  # 4, by its class
    ("Command-R7B", "num_key_value_heads"),
    ("Command-R7B", "sliding_window_pattern"),  # 4, by its class
    ("OLMo-3-7B", "layer_types"),  # every fourth is full, by its class
    ("OLMo-3-7B", "num_key_value_heads"),
    ("Granite-4.0-H-Small", "num_key_value_heads"),
    ("Falcon-H1-0.5B", "num_key_value_heads"),
    ("Falcon-H1-0.5B", "head_dim"),
    ("Nemotron-H-8B", "num_hidden_layers"),
    ("Nemotron-3-Nano-30B-A3B", "num_hidden_layers"),
}
ASKED_FOR_FIRST = {
    ("Nemotron-H-8B", "attention_head_dim"): "head_dim",
    ("Ring-2.5-1T", "group_norm_size"): "short_conv_kernel_size",
    ("Qwen3.5-397B-A17B", "layer_types"): "full_attention_interval",
}
"""Where one of two fields will do, the one that an error names."""
NEEDED = [
    (name, path)
    for name, config in CONFIGS.items()
    for path in leaves(config)
    if path[-1] != "model_type" and (name, path[-1]) not in FALLS_BACK
]


@pytest.mark.parametrize(
    ("name", "path"), NEEDED, ids=lambda value: ".".join(value) if isinstance(value, tuple) else value
)
@pytest.mark.parametrize("value", [..., None], ids=["without", "null"])
def test_a_field_that_is_not_there_is_named_and_nothing_taken_in_its_place(
    name: str, path: tuple[str, ...], value: Any, write: Any
) -> None:
    if path[-1] == "sliding_window" and name == "Mistral-7B-v0.1" and value is None:
        return  # null says that it has none
    found = errors(write(changed(CONFIGS[name], path, value)))
    named = ASKED_FOR_FIRST.get((name, path[-1]), path[-1])
    assert [(where.split(" ", 1)[1].split(".")[-1], code) for where, code in found.items()] == [(named, "missing-key")]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("value", [-1, 0, 2.5, "8", True, [], {}, float("nan"), 10**30], ids=repr)
def test_a_number_that_is_none_is_refused_whichever_field_it_is_in(name: str, value: Any, write: Any) -> None:
    for path in leaves(CONFIGS[name]):
        if path[-1] in {"model_type", "group_norm_size"}:
            continue
        found = errors(write(changed(CONFIGS[name], path, value)))
        assert any(path[-1] in where for where in found), (path, found)
        assert set(found.values()) <= {"wrong-type", "out-of-range", "not-finite", "unknown-word", "length-mismatch"}


@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("Kimi-Linear-48B-A3B", {"num_hidden_layers": 28}, {"length-mismatch"}),
        ("Kimi-Linear-48B-A3B", {"num_hidden_layers": 26}, {"out-of-range"}),
        ("MiMo-V2-Flash", {"num_hidden_layers": 47}, {"length-mismatch"}),
        ("MiMo-V2-Flash", {"hybrid_layer_pattern": [0, 1, 2] * 16}, {"unknown-word"}),
        ("MiMo-V2-Flash", {"hybrid_layer_pattern": [0, True, 1] * 16}, {"unknown-word"}),
        ("gpt-oss-120b", {"layer_types": ["full_attention", "chunked_attention"]}, {"unknown-word"}),
        ("gpt-oss-120b", {"layer_types": [["full_attention"]]}, {"unknown-word"}),
        ("Nemotron-H-8B", {"hybrid_override_pattern": "M*X"}, {"unknown-word"}),
        ("Nemotron-H-8B", {"hybrid_override_pattern": "M*-"}, {"length-mismatch"}),
        ("Nemotron-H-8B", {"hybrid_override_pattern": "-" * 52}, {"out-of-range"}),
        ("Nemotron-H-8B", {"sliding_window": 128}, {"not-supported"}),
        ("Nemotron-H-8B", {"mamba_ssm_cache_dtype": "int4"}, {"unknown-word"}),
        ("Ring-2.5-1T", {"layer_group_size": 7}, {"length-mismatch"}),
        ("Ring-2.5-1T", {"full_attention_type": "gqa"}, {"not-supported"}),
        ("MiniMax-M2.5", {"attn_type_list": [1] * 61 + [0]}, {"unknown-word"}),
        ("MiniMax-M1", {"attn_type_list": [0, 1], "num_hidden_layers": 80}, {"length-mismatch"}),
        ("Qwen3-235B-A22B", {"use_sliding_window": True}, {"not-supported"}),
        ("Llama-3.1-70B", {"hidden_size": 8190}, {"missing-key"}),
        ("GLM-5", {"index_topk_freq": 4}, {"missing-key"}),
        ("GLM-5", {"indexer_types": ["full"]}, {"length-mismatch"}),
        ("Kimi-K2", {"kv_lora_rank": 10_000_000, "num_hidden_layers": 10_000}, {"implausible"}),
        ("Kimi-K2", {"max_position_embeddings": 2**30}, {"out-of-range"}),
        ("Kimi-K2", {"text_config": "kimi"}, {"wrong-type"}),
        ("Kimi-K2", {"architectures": ["LlamaForCausalLM"]}, {"ambiguous"}),
        ("Kimi-K2", {"architectures": "DeepseekV3ForCausalLM"}, {"wrong-type"}),
        ("Kimi-K2", {"model_type": 3}, {"wrong-type"}),
        ("Kimi-K2", {"model_type": "kimi_k9", "architectures": ["DeepseekV3ForCausalLM"]}, {"unknown-name"}),
        ("Kimi-K2", {"model_type": None, "architectures": ["NewForCausalLM"]}, {"unknown-name"}),
        ("Kimi-K2", {"model_type": None}, {"missing-key"}),
        ("Kimi-K2", {"use_mla": False}, {"not-supported"}),
        # Fields of another architecture: the keys of an indexer, layers that share a cache, states.
        ("DeepSeek-V3", {"index_head_dim": 128}, {"not-supported"}),
        ("Llama-3.1-70B", {"sliding_window": 4096}, {"not-supported"}),
        ("Llama-3.1-70B", {"use_sliding_window": True, "sliding_window": 4096}, {"not-supported"}),
        ("Llama-3.1-70B", {"attention_chunk_size": 8192}, {"not-supported"}),
        ("Llama-3.1-70B", {"layer_types": [*["full_attention"] * 79, "sliding_attention"]}, {"not-supported"}),
        ("GLM-4.5", {"use_cla": True, "cla_share_factor": 2}, {"not-supported"}),
        ("Qwen3-235B-A22B", {"kv_lora_rank": 512}, {"not-supported"}),
        ("Mistral-7B-v0.1", {"mamba_d_state": 128}, {"not-supported"}),
        ("MiniMax-M2.5", {"num_kv_shared_layers": 2}, {"not-supported"}),
        ("OLMo-3-7B", {"layer_types": ["sliding_attention"] * 31, "num_hidden_layers": 32}, {"length-mismatch"}),
        ("Granite-4.0-H-Small", {"mamba_d_head": "auto"}, {"wrong-type"}),
    ],
)
def test_what_does_not_fit_or_is_not_known_is_refused(
    name: str, change: Config, expected: set[str], write: Any
) -> None:
    assert set(errors(write(CONFIGS[name] | change)).values()) == expected


def test_layers_that_are_numbered_twice_are_refused(write: Any) -> None:
    config = copy.deepcopy(CONFIGS["Kimi-Linear-48B-A3B"])
    config["linear_attn_config"]["kda_layers"].append(4)
    (where,) = errors(write(config))
    assert where.endswith("linear_attn_config.kda_layers[20]")


def test_all_that_is_missing_is_named_with_its_line(write: Any) -> None:
    found = errors(write({"model_type": "kimi_linear", "kv_lora_rank": -1}))
    assert found == {
        "1 num_hidden_layers": "missing-key",
        "1 linear_attn_config.full_attn_layers": "missing-key",
        "1 linear_attn_config.kda_layers": "missing-key",
        "1 linear_attn_config.num_heads": "missing-key",
        "1 linear_attn_config.head_dim": "missing-key",
        "1 linear_attn_config.short_conv_kernel_size": "missing-key",
        "3 kv_lora_rank": "out-of-range",
        "1 qk_rope_head_dim": "missing-key",
    }


def test_an_architecture_that_is_not_known_is_told_what_is(write: Any) -> None:
    with pytest.raises(InputError, match='found "lama", an architecture that is not known') as caught:
        derive_kv(write(CONFIGS["Llama-3.1-70B"] | {"model_type": "lama"}))
    (problem,) = caught.value.problems
    assert all(name in problem.message for a in architectures() for name in a.model_types)
    assert problem.fix.startswith("did you mean llama?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"": "empty-file"}),
        ('{"model_type": "llama"', {"1": "not-json"}),
        ('{\n"model_type": "llama",\n}', {"3": "not-json"}),
        ("[" * 5000, {"": "not-json"}),
        ('{"a": ' * 60 + "1" + "}" * 60, {"1": "not-json"}),
        ('{"a": ' + "1" * 5000 + "}", {"": "not-json"}),
        ("[]", {"1": "wrong-type"}),
        ("3", {"1": "wrong-type"}),
        ("{}", {"1 model_type": "missing-key"}),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else "",
)
def test_files_that_are_no_config(text: str, expected: dict[str, str], write: Any) -> None:
    assert errors(write(text)) == expected


def test_a_key_that_stands_twice_is_refused(write: Any) -> None:
    text = json.dumps(CONFIGS["Kimi-K2"], indent=0).replace(
        '"num_hidden_layers"', '"kv_lora_rank": 256,\n"num_hidden_layers"'
    )
    assert errors(write(text)) == {"5 kv_lora_rank": "duplicate-key"}


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert errors(tmp_path / "none.json") == {"": "missing-file"}
    assert errors(tmp_path) == {"": "missing-file"}
    (tmp_path / "latin.json").write_bytes(b'{\n"name": "\xe9"}')
    assert errors(tmp_path / "latin.json") == {"2": "unreadable-file"}


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 300),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["gqa", "full_attention", "M*", "float32", "llama", "kimi_linear"]),
    st.lists(st.one_of(st.integers(-1, 3), st.text(max_size=3), st.none()), max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
EXTRA = [
    "max_position_embeddings",
    "text_config",
    "architectures",
    "use_sliding_window",
    "mamba_ssm_dtype",
    "layer_types",
]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(CONFIGS)), st.data())
def test_a_config_is_read_or_refused_whatever_is_in_it(write: Any, name: str, data: st.DataObject) -> None:
    config = CONFIGS[name]
    for _ in range(data.draw(st.integers(1, 3))):
        paths = [*leaves(config), *((key,) for key in EXTRA)]
        config = changed(config, data.draw(st.sampled_from(paths)), data.draw(JUNK))
    try:
        found = derive_kv(write(config))
    except InputError as refused:
        problems = refused.problems
    else:
        problems = ()
        assert all(row.kv_bytes > 0 for row in found.sizes)
        model_of(parse_document(found.kv_cache_yaml + PROFILE, "model.yaml"))
    assert all(problem.code and problem.message and problem.where for problem in problems)


def test_what_is_wrong_with_options_and_config_comes_at_once(write: Any) -> None:
    path = write(CONFIGS["Kimi-K2"] | {"kv_lora_rank": None})
    found = errors(path, kv_dtype="fp4", state_dtype="fp8", lengths=["1.3K", 0, "32M"])
    assert found == {
        "--kv-dtype": "unknown-word",
        "--state-dtype": "unknown-word",
        "--length": "out-of-range",
        "3 kv_lora_rank": "missing-key",
    }


def test_the_language_model_is_what_it_says_itself(write: Any) -> None:
    nested = CONFIGS["Kimi-K2"] | {"model_type": "new"}
    assert errors(write({"model_type": "kimi_k2", "text_config": nested})) == {
        "4 text_config.model_type": "unknown-name"
    }
