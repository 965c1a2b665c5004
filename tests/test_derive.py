"""KVCache sizes from published configs: figures, claims of model cards, the command, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from prfaas_opt import schemas
from prfaas_opt.cli import app
from prfaas_opt.derive_api import KvDerivation, derive_kv
from prfaas_opt.io.architectures import architectures
from prfaas_opt.io.loading import find, load_model, model_of
from prfaas_opt.io.yaml_file import parse_document
from prfaas_opt.profiles.attention import families
from tests.configs import CONFIGS, FIGURES, MIB, PROFILE, Config

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "formats" / "hf_configs"
SAMPLE_OF = {
    "Kimi-Linear-48B-A3B": "moonshotai--Kimi-Linear-48B-A3B-Instruct_config.partial.json",
    "MiMo-V2-Flash": "XiaomiMiMo--MiMo-V2-Flash_config.json",
    "Qwen3.5-397B-A17B": "Qwen--Qwen3.5-397B-A17B_config.json",
    "Qwen3-Next-80B-A3B": "Qwen--Qwen3-Next-80B-A3B_config.partial.json",
    "Ring-2.5-1T": "inclusionAI--Ring-2.5-1T_config.partial.json",
    "MiniMax-M2.5": "MiniMaxAI--MiniMax-M2.5_config.json",
    "Qwen3-235B-A22B": "Qwen--Qwen3-235B-A22B_config.json",
    "DeepSeek-V3": "deepseek-ai--DeepSeek-V3_config.json",
    "Kimi-K2": "moonshotai--Kimi-K2-Instruct_config.json",
    "GLM-5": "zai-org--GLM-5_config.json",
    "GLM-4.5": "zai-org--GLM-4.5_config.partial.json",
    "Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B_config.json",
    "gpt-oss-120b": "openai--gpt-oss-120b_config.json",
}
SHIPPED = {
    "kimi-linear": "Kimi-Linear-48B-A3B",
    "mimo-v2-flash": "MiMo-V2-Flash",
    "qwen3.5-397b": "Qwen3.5-397B-A17B",
    "ring-2.5-1t": "Ring-2.5-1T",
    "minimax-m2.5": "MiniMax-M2.5",
    "qwen3-235b": "Qwen3-235B-A22B",
}
LENGTHS = (1024, 8192, 32768, 131072)
READINGS = (("bf16", "fp32"), ("fp8", "fp32"), ("bf16", "bf16"))


def sample(name: str) -> Path:
    path = SAMPLES / SAMPLE_OF[name]
    if not path.is_file():
        pytest.skip("the published configs are not beside this checkout")
    return path


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def to_file(config: Any, name: str = "config.json") -> Path:
        path = tmp_path / name
        path.write_text(config if isinstance(config, str) else json.dumps(config, indent=2), encoding="utf-8")
        return path

    return to_file


def check_figures(name: str, found: KvDerivation) -> None:
    expected = FIGURES[name]
    assert found.growing_bytes_per_token == expected.growing
    assert sum(window.full_bytes for window in found.windows) == expected.windows
    assert (found.state_bytes, found.convolution_bytes) == (expected.state, expected.convolution)
    assert found.fixed_bytes == expected.state + expected.convolution
    for row in found.sizes:
        windows = sum(min(row.length_tokens, w.window_tokens) * w.bytes_per_token for w in found.windows)
        assert row.block_level_bytes == expected.growing * row.length_tokens
        assert row.request_level_bytes == windows + expected.state + expected.convolution
        assert row.kv_bytes == row.block_level_bytes + row.request_level_bytes


@pytest.mark.parametrize("name", CONFIGS)
def test_figures_of_models(name: str, write: Any) -> None:
    check_figures(name, derive_kv(write(CONFIGS[name]), lengths=[1, 127, 4097, *LENGTHS]))


@pytest.mark.parametrize("name", SAMPLE_OF)
def test_figures_of_models_from_the_configs_that_were_published(name: str) -> None:
    check_figures(name, derive_kv(sample(name), lengths=LENGTHS))


@pytest.mark.parametrize("name", SAMPLE_OF)
def test_the_configs_here_say_what_the_published_ones_say(name: str, write: Any) -> None:
    ours, published = derive_kv(write(CONFIGS[name])), derive_kv(sample(name))
    assert ours.layers == published.layers


@pytest.mark.parametrize("name", MIB)
@pytest.mark.parametrize(("reading", "dtypes"), list(enumerate(READINGS)))
def test_sizes_by_data_type(name: str, reading: int, dtypes: tuple[str, str], write: Any) -> None:
    found = derive_kv(write(CONFIGS[name]), *dtypes, lengths=LENGTHS)
    assert tuple(row.kv_bytes / 2**20 for row in found.sizes) == pytest.approx(MIB[name][reading], abs=0.0501)
    element = {"bf16": 2, "fp8": 1, "fp32": 4}
    assert found.kv_cache["element_bytes"] == {"kv": element[dtypes[0]], "state": element[dtypes[1]], "convolution": 2}


def test_every_sample_that_is_here_is_tested() -> None:
    if not SAMPLES.is_dir():
        pytest.skip("the published configs are not beside this checkout")
    assert {path.name for path in SAMPLES.glob("*.json")} == set(SAMPLE_OF.values())


def test_every_architecture_and_family_has_a_config_here() -> None:
    types = {(config.get("text_config") or config)["model_type"] for config in CONFIGS.values()}
    untried = [a.model_types for a in architectures() if not types & set(a.model_types)]
    assert untried == []
    used = {layers.attention for name in CONFIGS for layers in _derived(name).layers}
    assert used == set(families())


def _derived(name: str) -> KvDerivation:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
        return derive_kv(path)


def test_names_of_architectures_are_told_apart() -> None:
    types = [name for a in architectures() for name in a.model_types]
    classes = [name for a in architectures() for name in a.class_names]
    assert len(types) == len(set(types))
    assert len(classes) == len(set(classes))


def test_kimi_linear_needs_up_to_75_percent_less_than_if_all_its_layers_were_mla(write: Any) -> None:
    # arXiv 2510.26692, abstract: "reducing KV cache usage by up to 75%".
    config = copy.deepcopy(CONFIGS["Kimi-Linear-48B-A3B"])
    hybrid = derive_kv(write(config))
    linear = config["linear_attn_config"]
    linear["full_attn_layers"], linear["kda_layers"] = list(range(1, 28)), []
    all_mla = derive_kv(write(config))
    assert round(1 - hybrid.growing_bytes_per_token / all_mla.growing_bytes_per_token, 3) == 0.741
    assert all_mla.fixed_bytes == 0


def test_ring_needs_36_times_less_than_grouped_query_attention(write: Any) -> None:
    ring = derive_kv(write(CONFIGS["Ring-2.5-1T"]), lengths=["32K"])
    gqa = 80 * 8 * (192 + 128) * 2
    assert round(gqa / ring.growing_bytes_per_token, 1) == 35.6
    assert round(gqa * 32768 / ring.sizes[0].kv_bytes, 1) == 20.0


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_have_the_layers_of_their_configs(name: str, write: Any) -> None:
    _same_as_shipped(name, derive_kv(write(CONFIGS[SHIPPED[name]])))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_models_have_the_layers_of_the_configs_that_were_published(name: str) -> None:
    _same_as_shipped(name, derive_kv(sample(SHIPPED[name])))


def _same_as_shipped(name: str, found: KvDerivation) -> None:
    shipped = yaml.safe_load(find("models", name, "").read_text(encoding="utf-8"))["kv_cache"]
    assert found.kv_cache["layers"] == shipped["layers"]
    assert found.kv_cache["element_bytes"] == shipped["element_bytes"]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("dtypes", READINGS)
def test_the_block_for_a_model_file_loads_back_to_the_same_curve(
    name: str, dtypes: tuple[str, str], write: Any
) -> None:
    lengths = [1, 64, 128, 129, 5000, 131072]
    found = derive_kv(write(CONFIGS[name]), *dtypes, lengths=lengths)
    assert all(len(line) <= 80 for line in found.kv_cache_yaml.splitlines())
    assert yaml.safe_load(found.kv_cache_yaml)["kv_cache"] == found.kv_cache
    model = model_of(parse_document(found.kv_cache_yaml + PROFILE, "model.yaml"))
    (profile,) = model.profiles
    assert [profile.kv_bytes(float(n)) for n in lengths] == [row.kv_bytes for row in found.sizes]
    assert profile.kv_bytes.upper == found.max_tokens == 131072
    assert str(profile.provenance["kv_cache"]).startswith("derived, from the config.json of ")


def test_layers_of_a_group_add_up_to_the_model(write: Any) -> None:
    for name in CONFIGS:
        found = derive_kv(write(CONFIGS[name]))
        assert sum(layers.growing_bytes_per_token for layers in found.layers) == found.growing_bytes_per_token
        assert sum(layers.state_bytes for layers in found.layers) == found.state_bytes
        assert sum(layers.convolution_bytes for layers in found.layers) == found.convolution_bytes
        assert [layers.window for layers in found.layers if layers.window] == list(found.windows)
        for layers in found.layers:
            assert layers.level == ("block" if layers.growing_bytes_per_token else "request")
            assert (layers.level == "block") == (layers.attention in {"gqa", "mla", "dsa"})


# Lengths and data types


def test_the_longest_prompt_is_what_the_config_states(write: Any) -> None:
    config = CONFIGS["Kimi-K2"]
    stated = derive_kv(write(config | {"max_position_embeddings": 32768}))
    assert stated.max_tokens == 32768
    assert [row.length_tokens for row in stated.sizes] == [1024, 8192, 32768]
    assert stated.warnings == ()
    assert [row.length_tokens for row in derive_kv(write(config | {"model_max_length": 512})).sizes] == [512]


def test_a_length_beyond_it_is_answered_with_a_note(write: Any) -> None:
    found = derive_kv(write(CONFIGS["Kimi-K2"] | {"max_position_embeddings": 32768}), lengths=["64K"])
    assert found.max_tokens == 65536
    assert found.warnings == ("65,536 tokens are beyond the 32,768 that the config states as the longest prompt",)


def test_a_config_that_states_none_is_good_to_the_longest_length_asked_for(write: Any) -> None:
    found = derive_kv(write(CONFIGS["Kimi-K2"]), lengths=["3K", 100])
    assert (found.max_tokens, [row.length_tokens for row in found.sizes]) == (3072, [3072, 100])
    assert "does not state the longest prompt" in found.warnings[0]


@pytest.mark.parametrize(
    ("stated", "asked", "expected"),
    [
        ({}, None, ("fp32", "the default of engines")),
        ({"mamba_ssm_dtype": "bfloat16"}, None, ("bf16", "mamba_ssm_dtype")),
        ({"mamba_ssm_cache_dtype": "float32"}, None, ("fp32", "mamba_ssm_cache_dtype")),
        ({"mamba_ssm_cache_dtype": "auto"}, None, ("fp32", "the default of engines")),
        ({"mamba_ssm_dtype": "bfloat16"}, "fp32", ("fp32", "as asked for")),
    ],
)
def test_the_data_type_of_states(stated: Config, asked: str | None, expected: tuple[str, str], write: Any) -> None:
    found = derive_kv(write(CONFIGS["Nemotron-H-8B"] | stated), state_dtype=asked)
    assert (found.state_dtype, found.state_dtype_from) == expected
    assert found.state_bytes == 100_663_296 / (1 if expected[0] == "fp32" else 2)


# Ways in which configs state the same


def test_an_architecture_is_known_by_its_class_where_no_type_is_stated(write: Any) -> None:
    config = {k: v for k, v in CONFIGS["GLM-4.5"].items() if k != "model_type"}
    found = derive_kv(write(config | {"architectures": ["Glm4MoeForCausalLM"]}))
    assert (found.architecture, found.growing_bytes_per_token) == ("Glm4MoeForCausalLM", 376_832)


@pytest.mark.parametrize("nest", ["text_config", "language_config", "llm_config"])
def test_the_language_model_inside_a_model_of_several_modalities(nest: str, write: Any) -> None:
    config = CONFIGS["Kimi-K2"]
    outer = {"model_type": "kimi_k25", "hidden_size": 1, nest: config}
    assert derive_kv(write(outer)).layers == derive_kv(write(config)).layers
    nameless = {k: v for k, v in config.items() if k != "model_type"}
    assert derive_kv(write({"model_type": "kimi_k2", nest: nameless})).architecture == "kimi_k2"


def test_layer_types_stand_for_the_interval_of_full_attention(write: Any) -> None:
    config = CONFIGS["Qwen3-Next-80B-A3B"]
    types = ["full_attention" if n % 4 == 0 else "linear_attention" for n in range(1, 49)]
    listed = {k: v for k, v in config.items() if k != "full_attention_interval"} | {"layer_types": types}
    assert derive_kv(write(listed)).layers == derive_kv(write(config)).layers


def test_the_last_layer_of_an_interval_is_the_full_one(write: Any) -> None:
    found = derive_kv(write(CONFIGS["Qwen3-Next-80B-A3B"] | {"num_hidden_layers": 47}))
    assert [(layers.attention, layers.count) for layers in found.layers] == [("gqa", 11), ("gated-deltanet", 36)]


def test_words_stand_for_the_letters_of_a_pattern(write: Any) -> None:
    config = CONFIGS["Nemotron-3-Nano-30B-A3B"]
    words = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
    listed = {k: v for k, v in config.items() if k != "hybrid_override_pattern"}
    listed["layers_block_type"] = [words[letter] for letter in config["hybrid_override_pattern"]]
    assert derive_kv(write(listed)).layers == derive_kv(write(config)).layers


def test_a_llama_without_key_value_heads_is_multi_head(write: Any) -> None:
    config = {k: v for k, v in CONFIGS["Llama-3.1-70B"].items() if k != "num_key_value_heads"}
    assert derive_kv(write(config)).growing_bytes_per_token == 8 * 327_680
    assert derive_kv(write(config | {"num_key_value_heads": 1})).growing_bytes_per_token == 327_680 / 8
    assert derive_kv(write(config | {"head_dim": 256})).growing_bytes_per_token == 16 * 327_680


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Llama-3.1-70B", {"sliding_window": None, "layer_types": ["full_attention"] * 80, "use_cla": False}),
        ("Qwen2.5-72B", {"use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 80}),
        ("GLM-4.5", {"use_sliding_window": False, "sliding_window": 4096}),
        ("MiMo-V2-Flash", {"attention_chunk_size": 128, "sliding_window_size": 128}),
        ("Qwen3.5-397B-A17B", {"full_attention_interval": 4}),
    ],
)
def test_fields_that_mean_no_other_cache_change_nothing(name: str, change: Config, write: Any) -> None:
    assert derive_kv(write(CONFIGS[name] | change)).layers == derive_kv(write(CONFIGS[name])).layers


def test_a_gemma_that_states_next_to_nothing_is_as_its_class_has_it(write: Any) -> None:
    # google/gemma-3-4b-it: every sixth of 34 layers is full, 4 heads of 256.
    found = derive_kv(write({"model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024}))
    assert [(layers.attention, layers.count) for layers in found.layers] == [("gqa", 5), ("swa", 29)]
    assert found.growing_bytes_per_token == 5 * 4 * (256 + 256) * 2
    other = {"sliding_window_pattern": 2, "head_dim": 64, "num_key_value_heads": 1}
    found = derive_kv(write({"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 8} | other))
    assert found.growing_bytes_per_token == 3 * (64 + 64) * 2


def test_layer_types_stand_for_the_pattern_of_windows(write: Any) -> None:
    config = CONFIGS["Command-R7B"] | {"layer_types": ["full_attention", "sliding_attention"] * 16}
    found = derive_kv(write(config))
    assert [(layers.attention, layers.count) for layers in found.layers] == [("gqa", 16), ("swa", 16)]
    all_full = CONFIGS["OLMo-3-7B"] | {"layer_types": ["full_attention"] * 32, "sliding_window": None}
    assert derive_kv(write(all_full)).windows == ()


def test_a_granite_without_mamba_needs_no_field_of_it(write: Any) -> None:
    config = {k: v for k, v in CONFIGS["Granite-4.0-H-Small"].items() if not k.startswith("mamba")}
    found = derive_kv(write(config | {"layer_types": ["attention"] * 40}))
    assert (found.growing_bytes_per_token, found.fixed_bytes) == (163_840, 0)


@pytest.mark.parametrize(
    ("stated", "kv_dtype", "noted"),
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "bf16", "kv_cache_scheme"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8", None),
        ({"kv_cache_quant_algo": "FP8"}, "bf16", "kv_cache_quant_algo"),
        ({"kv_cache_scheme": {"num_bits": 4, "type": "int"}}, "fp8", "kv_cache_scheme"),
        ({"kv_cache_quant_algo": "NVFP4"}, "fp8", "kv_cache_quant_algo"),
        ({"kv_cache_scheme": None, "kv_cache_quant_algo": None, "quant_method": "fp8"}, "bf16", None),
    ],
)
def test_keys_and_values_that_a_checkpoint_wants_in_another_type_are_told(
    stated: Config, kv_dtype: str, noted: str | None, write: Any
) -> None:
    config = {"text_config": CONFIGS["Kimi-K2"] | {"max_position_embeddings": 131072}, "quantization_config": stated}
    found = derive_kv(write(config), kv_dtype=kv_dtype)
    assert found.warnings == () if noted is None else f"quantization_config.{noted}" in found.warnings[0]
    assert found.growing_bytes_per_token == {"bf16": 70_272, "fp8": 35_136}[kv_dtype]


def test_a_window_that_is_null_is_none(write: Any) -> None:
    found = derive_kv(write(CONFIGS["Mistral-7B-v0.1"] | {"sliding_window": None}))
    assert (found.growing_bytes_per_token, found.windows) == (131_072, ())


def test_a_window_that_no_prompt_outgrows_is_none(write: Any) -> None:
    # microsoft/Phi-3-mini-128k-instruct: 32 layers of 32 heads of 96.
    config = CONFIGS["Mistral-7B-v0.1"] | {"model_type": "phi3", "num_key_value_heads": 32, "hidden_size": 3072}
    never = derive_kv(write(config | {"sliding_window": 262_144, "max_position_embeddings": 131_072}))
    assert (never.growing_bytes_per_token, never.windows) == (393_216, ())
    short = derive_kv(write(config | {"sliding_window": 2047, "max_position_embeddings": 4096}))
    assert short.growing_bytes_per_token == 0
    assert [(w.window_tokens, w.bytes_per_token) for w in short.windows] == [(2047, 393_216)]


@pytest.mark.parametrize(
    ("schedule", "indexers"),
    [
        ({}, 78),
        ({"index_topk_freq": 1}, 78),
        ({"indexer_types": ["full", "shared", "shared"] * 26}, 26),
        ({"index_topk_pattern": "FFS" * 26}, 52),
        # Layer 0, then every fourth from layer 1 on.
        ({"index_topk_freq": 4, "index_skip_topk_offset": 2}, 21),
        # Layers 0 and 1, then every fourth from layer 2 on; every fifth from layer 3 on.
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, 21),
        ({"index_topk_freq": 5, "index_skip_topk_offset": 4}, 18),
    ],
)
def test_layers_that_share_what_an_indexer_picks_cache_no_keys_of_it(
    schedule: Config, indexers: int, write: Any
) -> None:
    found = derive_kv(write(CONFIGS["GLM-5"] | schedule))
    assert {layers.attention: layers.count for layers in found.layers} == {
        name: count for name, count in (("dsa", indexers), ("mla", 78 - indexers)) if count
    }
    assert found.growing_bytes_per_token == 89_856 + indexers * 128 * 2
    assert "indexer" in found.warnings[-1]


def test_a_ling_with_a_short_convolution_has_kda(write: Any) -> None:
    config = {k: v for k, v in CONFIGS["Ring-2.5-1T"].items() if k != "group_norm_size"}
    found = derive_kv(write(config | {"short_conv_kernel_size": 4}))
    assert [layers.attention for layers in found.layers] == ["mla", "kda"]
    assert found.convolution_bytes == 70 * 3 * (3 * 64 * 128) * 2
    by_class = derive_kv(write(config | {"architectures": ["BailingMoeV2_5ForCausalLM"]}))
    assert by_class.layers == derive_kv(write(CONFIGS["Ring-2.5-1T"])).layers


def test_infinity_that_python_writes_is_read(write: Any) -> None:
    text = json.dumps(CONFIGS["Nemotron-H-8B"] | {"time_step_limit": [0.0, float("inf")]})
    assert "Infinity" in text
    assert derive_kv(write(text)).growing_bytes_per_token == 16_384


# The command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["models", "derive", *arguments], env={"COLUMNS": "80", "NO_COLOR": "1"})


@pytest.mark.parametrize("name", CONFIGS)
def test_the_text_says_both_parts_within_80_columns(name: str, write: Any) -> None:
    result = run(str(write(CONFIGS[name])))
    assert result.exit_code == 0, result.output
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    figures = FIGURES[name]
    assert f"{figures.growing:,} bytes a token" in result.stdout
    assert ("Request-level: " in result.stdout) == any(figures[1:])
    for size in figures[1:]:
        assert size == 0 or f"{size:,} bytes in " in result.stdout
    for row in _derived(name).sizes:
        assert f"{row.kv_bytes / 2**20:,.1f}" in result.stdout


@pytest.mark.parametrize("name", CONFIGS)
def test_json_is_one_object_that_its_schema_describes(name: str, write: Any) -> None:
    result = run(str(write(CONFIGS[name])), "--kv-dtype", "fp8", "--length", "5000", "--json")
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schemas.schema("models derive")).validate(document)
    assert (document["command"], document["status"]) == ("models derive", "ok")
    data = document["data"]
    assert data["growing_bytes_per_token"] == FIGURES[name].growing / 2
    assert data["state_bytes"] == FIGURES[name].state
    assert [row["length_tokens"] for row in data["sizes"]] == [5000]
    assert document["warnings"] == data["warnings"]


def test_yaml_is_the_block_alone(write: Any) -> None:
    result = run(str(write(CONFIGS["Kimi-Linear-48B-A3B"])), "--yaml", "--state-dtype", "bf16")
    assert result.stdout == (
        "kv_cache:\n"
        "  layers:\n"
        "    - {attention: mla, count: 7, kv_lora_rank: 512, qk_rope_head_dim: 64}\n"
        "    - {attention: kda, count: 20, key_heads: 32, value_heads: 32,\n"
        "       head_dim_k: 128, head_dim_v: 128, conv_kernel: 4}\n"
        "  element_bytes: {kv: 2, state: 2, convolution: 2}\n"
        "  max_tokens: 131072\n"
        "kv_cache_provenance: derived, from the config.json of kimi_linear\n"
    )
    assert "note: the config does not state the longest prompt" in result.stderr


def test_exit_codes(write: Any) -> None:
    good, bad = str(write(CONFIGS["Kimi-K2"])), str(write({"model_type": "new"}, "bad.json"))
    assert run(good).exit_code == 0
    assert run(bad).exit_code == 4
    assert run(good, "--yaml", "--json").exit_code == 2
    assert run(good, "--kv-dtype", "fp4").exit_code == 2
    assert run().exit_code == 2
    document = json.loads(run(bad, "--json").stdout)
    jsonschema.Draft202012Validator(schemas.schema("error")).validate(document)
    assert (document["command"], document["errors"][0]["code"]) == ("models derive", "unknown-name")


def test_a_derived_block_gives_the_sizes_of_the_shipped_model() -> None:
    profile = load_model("kimi-linear").profile("H200")
    assert profile is not None
    assert [row.kv_bytes for row in _derived("Kimi-Linear-48B-A3B").sizes] == [
        profile.kv_bytes(float(n)) for n in LENGTHS
    ]
