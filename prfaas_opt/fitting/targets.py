"""A curve from published aggregates: each of them is linear in the coefficients of the curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from prfaas_opt.fitting.quadratic import Quadratic, powers, relative_least_squares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from prfaas_opt.workload.distribution import LengthDistribution

Kind = Literal["throughput", "ttft-mean", "ttft-percentile", "latency"]
Estimate = Literal["mean-length", "expected-time"]

FINEST_SHARE = 1e-6
"""No figure is taken to be more exact than this, however many digits it has."""


@dataclass(frozen=True)
class Target:
    """A published figure about requests of lengths in ``(above_tokens, up_to_tokens]``, without queueing.

    Attributes:
        kind: ``throughput``: requests/s of these lengths that ``instances`` prefill; ``ttft-mean`` and
            ``ttft-percentile``: seconds; ``latency``: seconds of a prompt of ``length_tokens``.
        value: as published, requests/s or s.
        half_width: half a unit of its last digit.
        held_out: it is compared with the fit and not used for it.
        instances: of a throughput.
        estimator: of a throughput: the service time at the mean length, or its mean over lengths.
        percentile: of a percentile, as a share.
        length_tokens: of a latency.
        above_tokens, up_to_tokens: the lengths it is about.
    """

    kind: Kind
    value: float
    half_width: float
    held_out: bool = False
    instances: float = 1.0
    estimator: Estimate = "mean-length"
    percentile: float = 0.5
    length_tokens: float = 0.0
    above_tokens: float = 0.0
    up_to_tokens: float = np.inf

    def seconds(self, value: float) -> float:
        """The service time that a value of this target states; a throughput's is ``N / Theta`` (equation 4)."""
        return self.instances / value if self.kind == "throughput" else value

    def stated(self, seconds: float) -> float:
        """The value that a service time gives: the inverse of ``seconds``."""
        return self.seconds(seconds)


@dataclass(frozen=True)
class Calibration:
    """A fit to targets.

    Attributes:
        curve: the coefficients.
        fitted: the value of each target by the curve, in the target's unit.
        stretch: the least factor by which the rounding has to be stretched for one curve to meet all targets.
        extremes: the least and most of each function asked for, over all curves that meet all the printed digits;
            empty where none does.
    """

    curve: Quadratic
    fitted: tuple[float, ...]
    stretch: float
    extremes: tuple[tuple[float, float], ...]


def target_row(target: Target, lengths: LengthDistribution) -> NDArray[np.float64]:
    """What, times the coefficients, is the target's service time.

    At a mean length and at a percentile it is the powers of a length (latency rises with it, so a percentile of the
    latency is the latency at that percentile of the lengths); a mean over lengths is the mean of the powers.
    """
    if target.kind == "latency":
        return _powers_of(target.length_tokens)
    low, high = target.above_tokens, target.up_to_tokens
    share = lengths.moment(0.0, low, high)
    if target.kind == "ttft-percentile":
        before = lengths.share_at_most(low)
        return _powers_of(lengths.quantile(min(before + target.percentile * share, 1.0)))
    if target.kind == "throughput" and target.estimator == "mean-length":
        return _powers_of(lengths.moment(1.0, low, high) / share)
    return np.array([lengths.moment(power, low, high) / share for power in (0.0, 1.0, 2.0)])


def _powers_of(length: float) -> NDArray[np.float64]:
    row: NDArray[np.float64] = powers([length])[0]
    return row


def _ends(target: Target) -> list[float]:
    """The service times that a target's digits allow."""
    half_width = max(target.half_width, FINEST_SHARE * target.value)
    return [target.seconds(target.value + side * half_width) for side in (-1.0, 1.0)]


def calibrate(
    targets: Sequence[Target],
    rows: NDArray[np.float64],
    asked: Sequence[NDArray[np.float64]],
) -> Calibration:
    """The curve with the least squares of relative residuals over the targets that are not held out.

    Args:
        targets: of which those not held out tell the coefficients apart.
        rows: ``target_row`` of each.
        asked: functions of the coefficients whose extremes are wanted.
    """
    from prfaas_opt.fitting.convex import extremes

    used = [i for i, target in enumerate(targets) if not target.held_out]
    values = np.array([targets[i].seconds(targets[i].value) for i in used])
    curve = relative_least_squares(rows[used], values)
    ends = np.sort([_ends(targets[i]) for i in used], axis=1)
    stretch, found = extremes(rows[used], values, ends[:, 0], ends[:, 1], asked)
    fitted = (target.stated(float(row @ np.array(curve))) for target, row in zip(targets, rows, strict=True))
    return Calibration(curve, tuple(fitted), stretch, tuple(found))
