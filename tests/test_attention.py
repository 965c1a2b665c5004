"""Attention families and layouts of layers against a count of every layer, token, head and channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_opt.profiles.attention import KvElements, families
from prfaas_opt.profiles.kv_cache import KvLayout, LayerGroup, Window

Counted = tuple[int, int, int]
"""Elements of keys and values, of states, and of convolution states."""


def _keys_and_values(d: dict[str, int], kept: range) -> Counted:
    return sum(d["head_dim_k"] + d["head_dim_v"] for _token in kept for _head in range(d["kv_heads"])), 0, 0


def _gqa(d: dict[str, int], length: int) -> Counted:
    return _keys_and_values(d, range(length))


def _swa(d: dict[str, int], length: int) -> Counted:
    return _keys_and_values(d, range(max(length - d["window_tokens"], 0), length))


def _mla(d: dict[str, int], length: int) -> Counted:
    return sum(d["kv_lora_rank"] + d["qk_rope_head_dim"] for _token in range(length)), 0, 0


def _dsa(d: dict[str, int], length: int) -> Counted:
    return _mla(d, length)[0] + sum(d["index_head_dim"] for _token in range(length)), 0, 0


def _waiting(d: dict[str, int], channels: int) -> int:
    """Inputs that a causal convolution of this kernel still needs, of so many channels."""
    return sum(1 for _channel in range(channels) for past in range(d["conv_kernel"]) if past > 0)


def _linear(d: dict[str, int], _length: int) -> Counted:
    state = sum(1 for _h in range(d["value_heads"]) for _k in range(d["head_dim_k"]) for _v in range(d["head_dim_v"]))
    queries = keys = d["key_heads"] * d["head_dim_k"]
    values = d["value_heads"] * d["head_dim_v"]
    return 0, state, _waiting(d, queries) + _waiting(d, keys) + _waiting(d, values)


def _mamba2(d: dict[str, int], _length: int) -> Counted:
    state = sum(1 for _h in range(d["heads"]) for _x in range(d["head_dim"]) for _n in range(d["state_size"]))
    inputs, b, c = d["heads"] * d["head_dim"], d["groups"] * d["state_size"], d["groups"] * d["state_size"]
    return 0, state, _waiting(d, inputs) + _waiting(d, b) + _waiting(d, c)


COUNT: dict[str, Callable[[dict[str, int], int], Counted]] = {
    "gqa": _gqa,
    "swa": _swa,
    "mla": _mla,
    "dsa": _dsa,
    "kda": _linear,
    "gated-deltanet": _linear,
    "lightning": _linear,
    "mamba2": _mamba2,
}
FIELDS = {name: list(family.__struct_fields__) for name, family in families().items()}

Group = tuple[str, int, dict[str, int]]


@st.composite
def groups(draw: st.DrawFn) -> Group:
    name = draw(st.sampled_from(sorted(families())))
    sizes = {field: draw(st.integers(0 if field == "conv_kernel" else 1, 5)) for field in FIELDS[name]}
    return name, draw(st.integers(1, 4)), sizes


def layout(chosen: list[Group], kv_bytes: float = 2.0, state_bytes: float = 4.0, conv_bytes: float = 2.0) -> KvLayout:
    layers = tuple(LayerGroup(count, families()[name](**sizes)) for name, count, sizes in chosen)
    return KvLayout(layers, kv_bytes, state_bytes, conv_bytes, max_tokens=64)


def test_every_family_is_counted_here() -> None:
    assert set(COUNT) == set(families())


@pytest.mark.parametrize("name", sorted(families()))
def test_elements_of_a_layer_are_what_counting_gives(name: str) -> None:
    primes = (2, 3, 5, 7, 11)
    sizes = dict(zip(FIELDS[name], primes, strict=False))
    assert len(sizes) == len(FIELDS[name])
    elements = families()[name](**sizes).kv_elements()
    assert min(elements.per_token, elements.state, elements.convolution) >= 0
    for length in (1, 6, 7, 8, 40):
        tokens = length if elements.window_tokens is None else min(length, elements.window_tokens)
        found = (elements.per_token * tokens, elements.state, elements.convolution)
        assert found == COUNT[name](sizes, length)


@given(st.lists(groups(), min_size=1, max_size=4), st.integers(1, 64), st.sampled_from([1.0, 2.0]))
def test_a_curve_is_the_count_of_every_layer_and_token(chosen: list[Group], length: int, kv_bytes: float) -> None:
    by_hand = 0.0
    for name, count, sizes in chosen:
        for _layer in range(count):
            kv, state, convolution = COUNT[name](sizes, length)
            by_hand += kv * kv_bytes + state * 4.0 + convolution * 2.0
    found = layout(chosen, kv_bytes)
    assert found.curve()(float(length)) == by_hand
    assert found.block_level_bytes(length) + found.request_level_bytes(length) == by_hand


@given(st.lists(groups(), min_size=1, max_size=4), st.integers(1, 64))
def test_fp8_halves_keys_and_values_and_never_a_state(chosen: list[Group], length: int) -> None:
    bf16, fp8 = layout(chosen), layout(chosen, kv_bytes=1.0)
    assert fp8.growing_bytes_per_token == bf16.growing_bytes_per_token / 2
    assert fp8.windows == tuple(Window(w.tokens, w.bytes_per_token / 2) for w in bf16.windows)
    assert fp8.fixed_bytes == bf16.fixed_bytes
    assert fp8.curve()(float(length)) - fp8.fixed_bytes == (bf16.curve()(float(length)) - bf16.fixed_bytes) / 2


@given(st.lists(groups(), min_size=1, max_size=4))
def test_states_of_half_the_size_halve_states_alone(chosen: list[Group]) -> None:
    full, half = layout(chosen), layout(chosen, state_bytes=2.0)
    assert half.recurrent_bytes == full.recurrent_bytes / 2
    assert half.convolution_bytes == full.convolution_bytes
    assert half.curve()(64.0) == full.curve()(64.0) - full.recurrent_bytes / 2


@given(st.lists(groups(), min_size=1, max_size=4), st.integers(1, 63))
def test_a_cache_never_shrinks_and_grows_by_its_slope_once_windows_are_full(chosen: list[Group], length: int) -> None:
    found = layout(chosen)
    step = found.curve()(float(length + 1)) - found.curve()(float(length))
    assert step >= found.growing_bytes_per_token >= 0
    if all(window.tokens <= length for window in found.windows):
        assert step == found.growing_bytes_per_token
    else:
        assert step > found.growing_bytes_per_token


def test_windows_of_one_size_are_one_term() -> None:
    small = {"kv_heads": 1, "head_dim_k": 2, "head_dim_v": 3, "window_tokens": 8}
    found = layout([("swa", 2, small), ("swa", 1, small), ("swa", 1, small | {"window_tokens": 4})])
    assert found.windows == (Window(4, 10.0), Window(8, 30.0))


@pytest.mark.parametrize(
    ("elements", "growing"),
    [
        (KvElements(per_token=7), 7),
        (KvElements(per_token=7, window_tokens=128), 0),
        (KvElements(state=7, convolution=3), 0),
    ],
)
def test_only_what_no_window_bounds_is_block_level(elements: KvElements, growing: int) -> None:
    assert elements.growing_per_token == growing


def test_names_and_dimensions_of_families_are_those_of_model_files() -> None:
    linear = ["key_heads", "value_heads", "head_dim_k", "head_dim_v", "conv_kernel"]
    expected: dict[str, Any] = {
        "gqa": ["kv_heads", "head_dim_k", "head_dim_v"],
        "swa": ["kv_heads", "head_dim_k", "head_dim_v", "window_tokens"],
        "mla": ["kv_lora_rank", "qk_rope_head_dim"],
        "dsa": ["kv_lora_rank", "qk_rope_head_dim", "index_head_dim"],
        "kda": linear,
        "gated-deltanet": linear,
        "lightning": linear,
        "mamba2": ["heads", "head_dim", "state_size", "groups", "conv_kernel"],
    }
    assert expected == FIELDS
