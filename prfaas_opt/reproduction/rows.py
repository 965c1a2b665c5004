"""The rows of ``reproduce``: the paper's figure, ours, the difference and whether it is evidence.

A row is *fitted* where its printed figure went into the shipped models: three figures of table 6 fix the H20 latency
curve, its decode rates fix the decode batch, table 3 fixes the latencies of its models, table 5 is a model file; or
where it states the setup, such as the counts of the naive split. All others are *held out*.

Table 6 is compared by the paper's estimator, mean-length, at our own optimum; Theta and egress, whose size depends on
the threshold, at the paper's threshold of 19,400 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from prfaas_opt import api, listings, units
from prfaas_opt.profiles.attention.gqa import GroupedQueryAttention
from prfaas_opt.profiles.attention.mla import MultiHeadLatentAttention
from prfaas_opt.reproduction import paper

if TYPE_CHECKING:
    from prfaas_opt.results import Plan

Evidence = Literal["held out", "fitted"]


class Row(Struct, frozen=True):
    """One figure of the paper."""

    id: str
    where: Annotated[str, Meta(description="table or section of the paper")]
    quantity: Annotated[str, Meta(description="what the figure is, with its unit")]
    paper: Annotated[float, Meta(description="as printed")]
    ours: float
    relative_difference: Annotated[float, Meta(description="ours / paper - 1")]
    evidence: Evidence
    within: Annotated[bool, Meta(description="whether it agrees, as `criterion` says")]
    criterion: str


class Reproduction(Struct, frozen=True):
    """All rows."""

    rows: tuple[Row, ...]

    @property
    def holds(self) -> bool:
        """Whether every row agrees."""
        return all(row.within for row in self.rows)


class _Criterion(Struct, frozen=True):
    """When two figures agree."""

    words: str
    relative: float | None = None
    decimals: int | None = None
    significant_digits: int | None = None
    below: bool = False

    def holds(self, printed: float, ours: float) -> bool:
        """Whether our figure agrees with a printed one."""
        if self.below:
            return ours < printed
        if self.decimals is not None:
            return round(ours, self.decimals) == round(printed, self.decimals)
        if self.significant_digits is not None:
            return float(f"{ours:.{self.significant_digits}g}") == printed
        assert self.relative is not None
        return abs(ours / printed - 1) <= self.relative if printed else ours == printed


_EQUAL = _Criterion("equal", relative=0.0)
_WITHIN_1 = _Criterion("within 1 %", relative=0.01)
_WITHIN_2 = _Criterion("within 2 %", relative=0.02)
_WITHIN_8 = _Criterion("within 8 %", relative=0.08)
_COARSE = _Criterion("within 15 %, read off a plot", relative=0.15)
_TWO_DIGITS = _Criterion("to two digits", significant_digits=2)
_BELOW = _Criterion("below", below=True)


def _printed(decimals: int) -> _Criterion:
    return _Criterion("to the printed digits", decimals=decimals)


def _row(
    id_: str,
    where: str,
    quantity: str,
    printed: float,
    ours: float,
    evidence: Evidence,
    criterion: _Criterion,
) -> Row:
    difference = ours / printed - 1 if printed else ours - printed
    return Row(
        id_,
        where,
        quantity,
        printed,
        ours,
        difference,
        evidence,
        criterion.holds(printed, ours),
        criterion.words,
    )


def reproduce() -> Reproduction:
    """Every figure of the paper beside ours, from the shipped models and the built-in case study.

    >>> reproduce().holds
    True
    """
    rows = [
        *_section_2_2(),
        *_section_2_3(),
        *_figure_2(),
        *_table_3(),
        *_table_5(),
        *_section_4(),
        *_table_6(),
    ]
    return Reproduction(tuple(rows))


def _kv_throughput_gbps(model: str, length: str) -> float:
    return listings.kv([model], [length]).rows[0].kv_throughput_gbps


def _section_2_2() -> Iterator[Row]:
    """Ratios that the paper states in words; the baseline of each is part of its quantity."""
    at_32k = {model: _kv_throughput_gbps(model, "32K") for model in paper.TABLE_3_KV_THROUGHPUT_GBPS}
    gqa = GroupedQueryAttention(kv_heads=8, head_dim_k=192, head_dim_v=128).kv_elements().per_token
    mla = MultiHeadLatentAttention(kv_lora_rank=512, qk_rope_head_dim=64).kv_elements().per_token
    all_layers, mla_layers = 80, 10
    figures = [
        (
            "mimo",
            "KV throughput at 32K, MiniMax-M2.5 / MiMo-V2-Flash",
            13,
            at_32k["minimax-m2.5"] / at_32k["mimo-v2-flash"],
        ),
        (
            "qwen",
            "KV throughput at 32K, Qwen3-235B / Qwen3.5-397B",
            4,
            at_32k["qwen3-235b"] / at_32k["qwen3.5-397b"],
        ),
        ("ring-mla", "Ring, per layer: GQA of 8 x (192+128) / MLA", 4.5, gqa / mla),
        ("ring-layers", "Ring: all layers / layers whose KV grows", 8, all_layers / mla_layers),
        ("ring-overall", "Ring: growing KV, all-GQA / as it is", 36, gqa * all_layers / (mla * mla_layers)),
    ]
    for id_, quantity, printed, ours in figures:
        yield _row(f"section-2.2.{id_}", "section 2.2", quantity, printed, ours, "held out", _WITHIN_2)


def _section_2_3() -> Iterator[Row]:
    figures = [
        ("minimax-m2.5", "MiniMax-M2.5", 512, "32K", 3.8, "Tbps", _TWO_DIGITS),
        ("qwen3-235b", "Qwen3-235B", 512, "32K", 2.1, "Tbps", _TWO_DIGITS),
        ("ring-2.5-1t", "Ring-2.5-1T", 512, "32K", 170, "Gbps", _TWO_DIGITS),
        ("ring-2.5-1t", "Ring-2.5-1T", 512, "128K", 100, "Gbps", _BELOW),
        ("ring-2.5-1t", "Ring-2.5-1T", 10_000, "128K", 1.8, "Tbps", _TWO_DIGITS),
    ]
    for model, title, gpus, length, printed, unit, criterion in figures:
        gbps = listings.kv([model], [length], gpus=gpus).clusters[0].egress_gbps
        ours = units.to_tbps(gbps) if unit == "Tbps" else gbps
        quantity = f"{title}, {gpus:,} GPUs at {length} ({unit})"
        yield _row(
            f"section-2.3.{model}.{gpus}.{length}",
            "section 2.3",
            quantity,
            printed,
            ours,
            "held out",
            criterion,
        )


def _figure_2() -> Iterator[Row]:
    row = listings.kv(["minimax-m2.5"], ["128K"]).rows[0]
    quantity = "MiniMax-M2.5 prefill at 128K (s)"
    yield _row("figure-2.prefill.128K", "figure 2", quantity, 5.5, row.prefill_s, "held out", _WITHIN_2)
    ours = _kv_throughput_gbps("minimax-m2.5", "64K")
    quantity = "MiniMax-M2.5 KV throughput at 64K (Gbps)"
    yield _row("figure-2.kv-throughput.64K", "figure 2", quantity, 61, ours, "held out", _COARSE)


def _table_3() -> Iterator[Row]:
    for model, printed in paper.TABLE_3_KV_THROUGHPUT_GBPS.items():
        for length, figure in zip(paper.LENGTHS, printed, strict=True):
            ours = _kv_throughput_gbps(model, length)
            quantity = f"{model} at {length} (Gbps)"
            yield _row(f"table-3.{model}.{length}", "table 3", quantity, figure, ours, "fitted", _printed(2))


def _table_5() -> Iterator[Row]:
    rows = listings.kv(["internal-1t"], paper.LENGTHS).rows
    for length, row, mib, prefill_s, gbps in zip(
        paper.LENGTHS,
        rows,
        paper.TABLE_5_KV_MIB,
        paper.TABLE_5_PREFILL_S,
        paper.TABLE_5_KV_THROUGHPUT_GBPS,
        strict=True,
    ):
        size = units.to_mib(row.kv_bytes)
        yield _row(f"table-5.kv.{length}", "table 5", f"KVCache at {length} (MiB)", mib, size, "fitted", _printed(1))
        quantity = f"prefill at {length} (s)"
        yield _row(f"table-5.prefill.{length}", "table 5", quantity, prefill_s, row.prefill_s, "fitted", _printed(2))
        quantity = f"KV throughput at {length} (Gbps)"
        ours = row.kv_throughput_gbps
        yield _row(f"table-5.kv-throughput.{length}", "table 5", quantity, gbps, ours, "held out", _WITHIN_1)


def _case_study(**overrides: str) -> dict[str, Plan]:
    scenario = api.load_scenario(overrides={"estimator": "mean-length", **overrides})
    return {plan.name: plan for plan in api.compare(scenario).deployments}


def _at_paper_threshold() -> Plan:
    scenario = api.load_scenario(overrides={"estimator": "mean-length"})
    return api.evaluate(scenario, paper.THRESHOLD_TOKENS, paper.PD_PREFILL_INSTANCES)


def _section_4() -> Iterator[Row]:
    plans, at_paper = _case_study(), _at_paper_threshold()
    best, naive = plans["prfaas-pd"], plans["naive-heterogeneous"]
    lengths = api.load_scenario().workload.input_tokens
    priced = _case_study(**{"clusters.prfaas.price_per_gpu_hour": "2", "clusters.pd.price_per_gpu_hour": "1"})[
        "prfaas-pd"
    ]
    assert best.ratio is not None
    assert priced.cost is not None
    assert priced.cost.ratio is not None
    offloaded = lengths.mean_above(paper.THRESHOLD_TOKENS) or 0.0
    figures: list[tuple[str, str, float, float, _Criterion]] = [
        ("mean-input", "mean input length (thousand tokens)", 27, units.to_thousand_tokens(lengths.mean), _WITHIN_2),
        ("offload-share", "share offloaded", 0.496, best.offload_share, _WITHIN_2),
        (
            "mean-offloaded",
            "mean offloaded length at t = 19,400 (K tokens)",
            44,
            units.to_k_tokens(offloaded),
            _WITHIN_2,
        ),
        ("egress", 'egress at t = 19,400 (Gbps), "about 13"', 13, at_paper.egress_gbps, _WITHIN_8),
        ("gain-homogeneous", "1 + gain over homogeneous", 1.54, best.ratio, _WITHIN_2),
        ("gain-naive", "1 + gain over naive", 1.32, best.throughput_rps / naive.throughput_rps, _WITHIN_2),
        ("gain-equal-cost", "1 + gain at equal cost, 1 H200 = 2 H20", 1.15, priced.cost.ratio, _WITHIN_2),
    ]
    for id_, quantity, printed, ours, criterion in figures:
        yield _row(f"section-4.{id_}", "section 4", quantity, printed, ours, "held out", criterion)


_TITLES = {"prfaas-pd": "PrfaaS-PD", "homogeneous-pd": "homogeneous", "naive-heterogeneous": "naive"}
_FITTED = {
    "prfaas-pd.instances-prfaas",
    "homogeneous-pd.instances-prfaas",
    "homogeneous-pd.ratio",
    "naive-heterogeneous.instances-prfaas",
    "naive-heterogeneous.instances-pd_prefill",
    "naive-heterogeneous.instances-pd_decode",
    "prfaas-pd.theta-pd_prefill",
    "homogeneous-pd.theta-pd_prefill",
    "homogeneous-pd.lambda",
    "homogeneous-pd.ttft-p90",
    "prfaas-pd.theta-pd_decode",
    "homogeneous-pd.theta-pd_decode",
    "naive-heterogeneous.theta-pd_decode",
}
"""Figures of table 6 that describe the setup, or that the H20 latency curve or the decode batch come from."""


def _table_6() -> Iterator[Row]:
    plans, at_paper = _case_study(), _at_paper_threshold()
    threshold = plans["prfaas-pd"].threshold_tokens or 0
    yield _table_6_row("prfaas-pd", "threshold", "threshold (tokens)", paper.THRESHOLD_TOKENS, threshold, _WITHIN_2)
    for name, plan in plans.items():
        printed = paper.TABLE_6[name]
        roles = (("prfaas", "remote prefill"), ("pd_prefill", "local prefill"), ("pd_decode", "decode"))
        for (role, word), count in zip(roles, printed.instances, strict=True):
            ours = getattr(plan.instances, role)
            yield _table_6_row(name, f"instances-{role}", f"{word} instances", count, ours, _EQUAL)
        stages = (at_paper if name == "prfaas-pd" else plan).stages_rps
        at = " at t = 19,400" if name == "prfaas-pd" else ""
        for (role, word), theta in zip(roles, printed.theta_rps, strict=True):
            if theta is not None:
                quantity = f"Theta {word}{at} (req/s)"
                yield _table_6_row(name, f"theta-{role}", quantity, theta, getattr(stages, role), _WITHIN_2)
        for id_, quantity, figure, ours in (
            ("lambda", "Lambda (req/s)", printed.throughput_rps, plan.throughput_rps),
            ("ratio", "ratio to homogeneous", printed.ratio, plan.ratio or 0.0),
            ("ttft-mean", "mean TTFT, no queueing (s)", printed.ttft_mean_s, plan.ttft_s.mean),
            ("ttft-p90", "P90 TTFT, no queueing (s)", printed.ttft_p90_s, plan.ttft_s.p90),
        ):
            yield _table_6_row(name, id_, quantity, figure, ours, _WITHIN_2)


def _table_6_row(name: str, id_: str, quantity: str, printed: float, ours: float, criterion: _Criterion) -> Row:
    evidence: Evidence = "fitted" if f"{name}.{id_}" in _FITTED else "held out"
    return _row(f"table-6.{name}.{id_}", "table 6", f"{_TITLES[name]}: {quantity}", printed, ours, evidence, criterion)
