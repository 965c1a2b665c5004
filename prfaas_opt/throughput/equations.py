"""Equations 1 to 8 of the paper (arXiv 2604.15039, sections 2.1, 2.3 and 3.4), one function each.

All are in SI units (seconds, bytes, tokens, bytes/s, requests/s), take scalars or numpy arrays of one shape, and
hold for both estimators: `mean-length` passes the service time at the mean length of a class, `expected-time` the
mean service time of the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Value = TypeVar("Value", "float", "NDArray[np.float64]")


def kv_throughput(kv_bytes: Value, prefill_s: Value) -> Value:
    """Equation 1: KV throughput of one instance, bytes/s.

    ``Phi_kv(l) = S_kv(l) / T_prefill(l)``

    >>> round(kv_throughput(701.3 * 2**20, 1.84) * 8 / 1e9, 2)  # table 5, 32K, in Gbps
    3.2
    """
    return kv_bytes / prefill_s


def cluster_egress(gpus: float, gpus_per_instance: float, mean_kv_bytes: float, mean_prefill_s: float) -> float:
    """Equation 2: the least egress bandwidth of a prefill cluster that is never idle, bytes/s.

    ``B_out = (N / P) * E[S_kv] / E[T_prefill]``; where the mean length stands for all, ``(N / P) * Phi_kv(L_avg)``.

    >>> round(cluster_egress(512, 8, 7.49e9, 1.0) * 8 / 1e12, 2)  # section 2.3, MiniMax-M2.5 at 32K, in Tbps
    3.83
    """
    return gpus / gpus_per_instance * kv_throughput(mean_kv_bytes, mean_prefill_s)


def prfaas_throughput(
    instances: Value | float, prefill_s: Value, egress_bytes_per_s: Value | float, kv_bytes: Value
) -> Value:
    """Equation 3: requests/s that the remote prefill cluster computes and its link carries.

    ``Theta_prfaas = min(N_prfaas / T_prefill(l_long), B_out / S_kv(l_long))``

    >>> prfaas_throughput(4, 2.0, 1e9, 1e9)
    1.0
    """
    compute = instances / prefill_s
    link = egress_bytes_per_s / kv_bytes
    if isinstance(compute, float) and isinstance(link, float):
        return min(compute, link)
    import numpy as np

    return np.minimum(compute, link)


def pd_prefill_throughput(instances: Value | float, prefill_s: Value) -> Value:
    """Equation 4: requests/s that the local prefill instances compute.

    ``Theta_pd_p = N_p / T_prefill(l_short)``

    >>> pd_prefill_throughput(3, 1.5)
    2.0
    """
    return instances / prefill_s


def pd_decode_throughput(instances: float, batch: float, step_s: float, output_tokens: float) -> float:
    """Equation 5: requests/s that the decode instances finish.

    ``Theta_pd_d = N_d * BS_max / (T_decode * L_out)``

    >>> round(pd_decode_throughput(5, 20, 0.025, 1024), 2)  # table 6
    3.91
    """
    return instances * batch / (step_s * output_tokens)


def system_throughput(
    theta_prfaas: float | None, theta_pd_p: float | None, theta_pd_d: float, offload_share: float
) -> float:
    """Equation 6: the largest total rate that no stage is overloaded at, requests/s.

    ``Lambda_max = min(Theta_prfaas / p, Theta_pd_p / (1 - p), Theta_pd_d)``; a stage that serves no request
    (``p = 0`` or ``p = 1``) does not limit, one that must serve some and is not there limits to zero.

    >>> round(system_throughput(1.61, 1.64, 3.91, 0.496), 2)  # table 6; printed 3.24 from unrounded figures
    3.25
    """
    limits = [theta_pd_d]
    if offload_share > 0:
        limits.append((theta_prfaas or 0.0) / offload_share)
    if offload_share < 1:
        limits.append((theta_pd_p or 0.0) / (1 - offload_share))
    return min(limits)


def threshold_imbalance(theta_prfaas: float, theta_pd_p: float, offload_share: float) -> float:
    """Equation 7: zero at the balanced threshold, requests/s.

    ``Theta_prfaas / p - Theta_pd_p / (1 - p)``; positive where the threshold is too high and the remote pool has
    room.

    >>> threshold_imbalance(1.0, 3.0, 0.25)
    0.0
    """
    return theta_prfaas / offload_share - theta_pd_p / (1 - offload_share)


def split_imbalance(theta_prfaas: float, theta_pd_p: float, theta_pd_d: float) -> float:
    """Equation 8: zero where prefill makes what decode consumes, requests/s.

    ``Theta_prfaas + Theta_pd_p - Theta_pd_d``; at the balanced threshold of equation 7 the sum is Lambda.

    >>> split_imbalance(1.5, 1.5, 3.5)
    -0.5
    """
    return theta_prfaas + theta_pd_p - theta_pd_d
