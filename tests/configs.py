"""The fields of published configs that fix a model's KVCache, and no others; where each is from beside it.

Patterns of layers are written out by their rule. ``max_position_embeddings`` is left out: no size depends on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Config = dict[str, Any]


class Figures(NamedTuple):
    """Bytes at bf16 keys and values, fp32 states, bf16 convolution states."""

    growing: int
    windows: int = 0
    state: int = 0
    convolution: int = 0


_LINEAR, _FULL, _SLIDING = "linear_attention", "full_attention", "sliding_attention"
_KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]
_DEEPSEEK = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "num_hidden_layers": 61}
_NANO_30B = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
_NEMOTRON_8B = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"

CONFIGS: dict[str, Config] = {
    "Kimi-Linear-48B-A3B": {  # moonshotai/Kimi-Linear-48B-A3B-Instruct
        "model_type": "kimi_linear",
        "num_hidden_layers": 27,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "linear_attn_config": {
            "full_attn_layers": _KIMI_FULL,
            "kda_layers": [n for n in range(1, 28) if n not in _KIMI_FULL],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    },
    "MiMo-V2-Flash": {  # XiaomiMiMo/MiMo-V2-Flash
        "model_type": "mimo_v2_flash",
        "num_hidden_layers": 48,
        "hybrid_layer_pattern": [0, 1, 1, 1, 1, *[0, 1, 1, 1, 1, 1] * 7, 0],
        "num_key_value_heads": 4,
        "head_dim": 192,
        "v_head_dim": 128,
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
        "sliding_window": 128,
    },
    "Qwen3.5-397B-A17B": {  # Qwen/Qwen3.5-397B-A17B, its text_config
        "model_type": "qwen3_5_moe",
        "text_config": {
            "model_type": "qwen3_5_moe_text",
            "num_hidden_layers": 60,
            "layer_types": [_LINEAR, _LINEAR, _LINEAR, _FULL] * 15,
            "num_key_value_heads": 2,
            "head_dim": 256,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 64,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
        },
    },
    "Qwen3-Next-80B-A3B": {  # Qwen/Qwen3-Next-80B-A3B-Instruct
        "model_type": "qwen3_next",
        "num_hidden_layers": 48,
        "full_attention_interval": 4,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    },
    "Ring-2.5-1T": {  # inclusionAI/Ring-2.5-1T
        "model_type": "bailing_hybrid",
        "num_hidden_layers": 80,
        "layer_group_size": 8,
        "group_norm_size": 8,
        "num_attention_heads": 64,
        "head_dim": 128,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    },
    "MiniMax-M2.5": {  # MiniMaxAI/MiniMax-M2.5
        "model_type": "minimax_m2",
        "num_hidden_layers": 62,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "MiniMax-M1": {  # MiniMaxAI/MiniMax-M1-80k; arXiv 2506.13585
        "model_type": "minimax_m1",
        "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "Qwen3-235B-A22B": {  # Qwen/Qwen3-235B-A22B
        "model_type": "qwen3_moe",
        "num_hidden_layers": 94,
        "num_key_value_heads": 4,
        "head_dim": 128,
    },
    "Qwen2.5-72B": {  # Qwen/Qwen2.5-72B
        "model_type": "qwen2",
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "hidden_size": 8192,
    },
    "DeepSeek-V3": {"model_type": "deepseek_v3"} | _DEEPSEEK,  # deepseek-ai/DeepSeek-V3
    "Kimi-K2": {"model_type": "kimi_k2"} | _DEEPSEEK,  # moonshotai/Kimi-K2-Instruct
    "DeepSeek-V3.2": {"model_type": "deepseek_v32", "index_head_dim": 128} | _DEEPSEEK,  # deepseek-ai/DeepSeek-V3.2
    "GLM-5": {  # zai-org/GLM-5
        "model_type": "glm_moe_dsa",
        "num_hidden_layers": 78,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "index_head_dim": 128,
    },
    "GLM-4.5": {  # zai-org/GLM-4.5
        "model_type": "glm4_moe",
        "num_hidden_layers": 92,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "Llama-3.1-70B": {  # meta-llama/Llama-3.1-70B, which does not state head_dim
        "model_type": "llama",
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "hidden_size": 8192,
    },
    "Mistral-7B-v0.1": {  # mistralai/Mistral-7B-v0.1
        "model_type": "mistral",
        "num_hidden_layers": 32,
        "num_key_value_heads": 8,
        "num_attention_heads": 32,
        "hidden_size": 4096,
        "sliding_window": 4096,
    },
    "gpt-oss-120b": {  # openai/gpt-oss-120b
        "model_type": "gpt_oss",
        "layer_types": [_SLIDING, _FULL] * 18,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "sliding_window": 128,
    },
    "Gemma-2-27B": {  # google/gemma-2-27b, of which every second layer is full
        "model_type": "gemma2",
        "num_hidden_layers": 46,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "sliding_window": 4096,
    },
    "Gemma-3-12B": {  # google/gemma-3-12b-it, which leaves out the size of a head, 256, and the pattern, 6
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "num_hidden_layers": 48,
            "num_key_value_heads": 8,
            "sliding_window": 1024,
        },
    },
    "Command-R7B": {  # CohereLabs/c4ai-command-r7b-12-2024
        "model_type": "cohere2",
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "sliding_window": 4096,
        "sliding_window_pattern": 4,
    },
    "OLMo-3-7B": {  # allenai/Olmo-3-1025-7B
        "model_type": "olmo3",
        "layer_types": [_SLIDING, _SLIDING, _SLIDING, _FULL] * 8,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "hidden_size": 4096,
        "sliding_window": 4096,
    },
    "Granite-4.0-H-Small": {  # ibm-granite/granite-4.0-h-small
        "model_type": "granitemoehybrid",
        "layer_types": ["attention" if n in {5, 15, 25, 35} else "mamba" for n in range(40)],
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
    },
    "Falcon-H1-0.5B": {  # tiiuae/Falcon-H1-0.5B-Base
        "model_type": "falcon_h1",
        "num_hidden_layers": 36,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "mamba_n_heads": 24,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "mamba_n_groups": 1,
        "mamba_d_conv": 4,
    },
    "Nemotron-H-8B": {  # nvidia/Nemotron-H-8B-Base-8K; arXiv 2504.03624
        "model_type": "nemotron_h",
        "num_hidden_layers": 52,
        "hybrid_override_pattern": _NEMOTRON_8B,
        "num_key_value_heads": 8,
        "attention_head_dim": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
    },
    "Nemotron-3-Nano-30B-A3B": {  # nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B
        "model_type": "nemotron_h",
        "num_hidden_layers": 52,
        "hybrid_override_pattern": _NANO_30B,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "mamba_num_heads": 64,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
    },
}

FIGURES = {
    "Kimi-Linear-48B-A3B": Figures(8_064, 0, 41_943_040, 1_474_560),
    "MiMo-V2-Flash": Figures(23_040, 25_559_040),
    "Qwen3.5-397B-A17B": Figures(30_720, 0, 188_743_680, 3_317_760),
    "Qwen3-Next-80B-A3B": Figures(24_576, 0, 75_497_472, 1_769_472),
    "Ring-2.5-1T": Figures(11_520, 0, 293_601_280),
    "MiniMax-M2.5": Figures(253_952),
    # 10 layers of 2 * 8 * 128 and 70 of 64 * 128 * 128.
    "MiniMax-M1": Figures(40_960, 0, 293_601_280),
    "Qwen3-235B-A22B": Figures(192_512),
    "Qwen2.5-72B": Figures(327_680),
    "DeepSeek-V3": Figures(70_272),
    "Kimi-K2": Figures(70_272),
    # 61 * (512 + 64 + 128) * 2
    "DeepSeek-V3.2": Figures(85_888),
    "GLM-5": Figures(109_824),
    "GLM-4.5": Figures(376_832),
    "Llama-3.1-70B": Figures(327_680),
    # 32 * 2 * 8 * 128 * 2 for 4,096 tokens
    "Mistral-7B-v0.1": Figures(0, 536_870_912),
    "gpt-oss-120b": Figures(36_864, 4_718_592),
    # 23 layers of 2 * 16 * 128 each way
    "Gemma-2-27B": Figures(188_416, 771_751_936),
    # 8 layers of 2 * 8 * 256, and 40 for 1,024 tokens
    "Gemma-3-12B": Figures(65_536, 335_544_320),
    # 8 layers of 2 * 8 * 128, and 24 for 4,096 tokens
    "Command-R7B": Figures(32_768, 402_653_184),
    # 8 layers of 2 * 32 * 128, and 24 for 4,096 tokens
    "OLMo-3-7B": Figures(131_072, 1_610_612_736),
    # 4 layers of 2 * 8 * 128; 36 of 128 * 64 * 128, each with 3 inputs of 128 * 64 + 2 * 128 channels.
    "Granite-4.0-H-Small": Figures(16_384, 0, 150_994_944, 1_824_768),
    # 36 layers, each of 2 * 2 * 64 a token, 24 * 64 * 128, and 3 inputs of 24 * 64 + 2 * 128 = 1,792 channels.
    "Falcon-H1-0.5B": Figures(18_432, 0, 28_311_552, 387_072),
    # 4 layers of 2 * 8 * 128; 24 of 128 * 64 * 128, each with 3 inputs of 128 * 64 + 2 * 8 * 128 channels.
    "Nemotron-H-8B": Figures(16_384, 0, 100_663_296, 1_474_560),
    # 6 layers of 2 * 2 * 128; 23 of 64 * 64 * 128, each with 3 inputs of 64 * 64 + 2 * 8 * 128 channels.
    "Nemotron-3-Nano-30B-A3B": Figures(6_144, 0, 48_234_496, 847_872),
}

# MiB at 1K, 8K, 32K and 128K: bf16 keys and values with fp32 states, fp8 with fp32, bf16 with bf16.
MIB = {
    "Kimi-Linear-48B-A3B": ((49.3, 104.4, 293.4, 1049.4), (45.3, 72.9, 167.4, 545.4), (29.3, 84.4, 273.4, 1029.4)),
    "MiMo-V2-Flash": ((46.9, 204.4, 744.4, 2904.4), (23.4, 102.2, 372.2, 1452.2), (46.9, 204.4, 744.4, 2904.4)),
    "Qwen3.5-397B-A17B": (
        (213.2, 423.2, 1143.2, 4023.2),
        (198.2, 303.2, 663.2, 2103.2),
        (123.2, 333.2, 1053.2, 3933.2),
    ),
    "Ring-2.5-1T": ((291.2, 370.0, 640.0, 1720.0), (285.6, 325.0, 460.0, 1000.0), (151.2, 230.0, 500.0, 1580.0)),
    "MiniMax-M2.5": (
        (248.0, 1984.0, 7936.0, 31744.0),
        (124.0, 992.0, 3968.0, 15872.0),
        (248.0, 1984.0, 7936.0, 31744.0),
    ),
    "Qwen3-235B-A22B": (
        (188.0, 1504.0, 6016.0, 24064.0),
        (94.0, 752.0, 3008.0, 12032.0),
        (188.0, 1504.0, 6016.0, 24064.0),
    ),
    "DeepSeek-V3": ((68.6, 549.0, 2196.0, 8784.0), (34.3, 274.5, 1098.0, 4392.0), (68.6, 549.0, 2196.0, 8784.0)),
    "Kimi-K2": ((68.6, 549.0, 2196.0, 8784.0), (34.3, 274.5, 1098.0, 4392.0), (68.6, 549.0, 2196.0, 8784.0)),
    "GLM-5": ((107.2, 858.0, 3432.0, 13728.0), (53.6, 429.0, 1716.0, 6864.0), (107.2, 858.0, 3432.0, 13728.0)),
    "Llama-3.1-70B": (
        (320.0, 2560.0, 10240.0, 40960.0),
        (160.0, 1280.0, 5120.0, 20480.0),
        (320.0, 2560.0, 10240.0, 40960.0),
    ),
    "Qwen3-Next-80B-A3B": ((97.7, 265.7, 841.7, 3145.7), (85.7, 169.7, 457.7, 1609.7), (61.7, 229.7, 805.7, 3109.7)),
    "gpt-oss-120b": ((40.5, 292.5, 1156.5, 4612.5), (20.2, 146.2, 578.2, 2306.2), (40.5, 292.5, 1156.5, 4612.5)),
    "GLM-4.5": (
        (368.0, 2944.0, 11776.0, 47104.0),
        (184.0, 1472.0, 5888.0, 23552.0),
        (368.0, 2944.0, 11776.0, 47104.0),
    ),
}

PROFILE = """
profiles:
  - hardware: H200
    gpus_per_instance: 8
    prefill: {lengths_tokens: [1K, 128K], latency_s: [0.1, 9]}
    provenance: {prefill: "measured, here"}
"""
