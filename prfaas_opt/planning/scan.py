"""The best threshold under mean-length, where the remote load need not fall with t: a scan of all thresholds."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.planning.threshold import TIE, BestThreshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prfaas_opt.planning.problem import TwoPoolProblem


class Scan:
    """The loads at every threshold at once."""

    def __init__(self, problem: TwoPoolProblem) -> None:
        self._problem = problem

    @cached_property
    def _remote(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Remote load and egress bytes a request, at each threshold."""
        remote, classes = self._problem.remote, self._problem.lengths.classes
        share, mean = classes.share_above, classes.mean_above
        if remote is None:
            return np.where(share > 0, np.inf, 0.0), share
        sent = share * remote.kv_bytes(mean)
        compute = share * remote.prefill_s(mean) / remote.usable_instances
        return np.maximum(compute, sent / remote.egress_bytes_per_s), sent

    @cached_property
    def _local_seconds(self) -> NDArray[np.float64]:
        classes = self._problem.lengths.classes
        return classes.share_at_most * self._problem.local_prefill_s(classes.mean_at_most)

    def _loads(self, split: int) -> NDArray[np.float64]:
        usable = self._problem.usable_prefill(split)
        local = self._local_seconds / usable if usable > 0 else np.where(self._local_seconds > 0, np.inf, 0.0)
        return np.maximum(self._remote[0], local)

    def best(self, split: int) -> BestThreshold:
        """The least load over all thresholds."""
        load = float(self._loads(split).min())
        threshold = self.least_egress(split, load * (1 + TIE))
        return BestThreshold(threshold, load, load, None, False)

    def within(self, split: int, load_s: float) -> tuple[int, int]:
        """The ends of the set, which need not be contiguous."""
        (index,) = np.nonzero(self._loads(split) <= load_s)
        thresholds = self._problem.lengths.thresholds
        # Up to the next threshold that changes anything.
        beyond = thresholds[index[-1] + 1] - 1 if index[-1] + 1 < len(thresholds) else thresholds[-1]
        return int(thresholds[index[0]]), int(beyond)

    def least_egress(self, split: int, load_s: float) -> int:
        """By the egress of each threshold; the shortest of equals."""
        egress = np.where(self._loads(split) <= load_s, self._remote[1], np.inf)
        return int(self._problem.lengths.thresholds[int(egress.argmin())])
