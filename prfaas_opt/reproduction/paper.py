"""Figures as the paper prints them (arXiv 2604.15039), transcribed by hand; facts, with their place.

Lengths of tables 3 and 5 are read with K = 1024. The optimum printed as t = 19.4K is 19,400 tokens: with the published
length distribution it gives the printed shares, 19.4 * 1024 does not.
"""

from __future__ import annotations

from dataclasses import dataclass

LENGTHS = ("1K", "8K", "32K", "128K")

TABLE_3_KV_THROUGHPUT_GBPS = {
    "kimi-linear": (1.19, 2.29, 3.87, 4.88),
    "mimo-v2-flash": (0.82, 2.85, 4.66, 4.71),
    "qwen3.5-397b": (4.13, 6.28, 8.25, 7.47),
    "ring-2.5-1t": (7.27, 4.47, 2.59, 1.46),
    "minimax-m2.5": (4.94, 32.87, 59.93, 47.82),
    "qwen3-235b": (4.12, 22.42, 33.35, 21.50),
}

TABLE_5_KV_MIB = (190.8, 308.9, 701.3, 2316.3)
TABLE_5_PREFILL_S = (0.44, 0.72, 1.84, 7.40)
TABLE_5_KV_THROUGHPUT_GBPS = (3.61, 3.59, 3.19, 2.62)

THRESHOLD_TOKENS = 19400
PD_PREFILL_INSTANCES = 3


@dataclass(frozen=True)
class Deployment:
    """A column of table 6: counts and Theta of remote prefill, local prefill and decode."""

    instances: tuple[int, int, int]
    theta_rps: tuple[float | None, float | None, float | None]
    throughput_rps: float
    ratio: float
    ttft_mean_s: float
    ttft_p90_s: float


TABLE_6 = {
    "prfaas-pd": Deployment((4, 3, 5), (1.61, 1.64, 3.91), 3.24, 1.54, 2.22, 3.51),
    "homogeneous-pd": Deployment((0, 9, 3), (None, 2.11, 2.35), 2.11, 1.00, 4.44, 9.73),
    "naive-heterogeneous": Deployment((4, 0, 8), (2.45, None, 6.25), 2.45, 1.16, 1.74, 3.51),
}
