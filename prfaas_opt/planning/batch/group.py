"""Scenarios of one model, workload and kind of hardware: what is worked out once for all of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from prfaas_opt import results
from prfaas_opt.errors import PrfaasOptError
from prfaas_opt.planning.batch.prefill_times import PrefillTimes
from prfaas_opt.planning.batch.tables import LoadTables, tables_of
from prfaas_opt.planning.batch.thresholds import Capacities
from prfaas_opt.planning.build import carried_by_link, decoding_of, homogeneous_scenario, profile_of, two_pool_problem
from prfaas_opt.planning.describe import provenance_of
from prfaas_opt.planning.eligibility import eligible
from prfaas_opt.planning.terms_in_words import terms_in_words

if TYPE_CHECKING:
    from prfaas_opt.planning.batch.tables import Floats, Ints
    from prfaas_opt.planning.decoding import Decoding
    from prfaas_opt.scenario import Scenario

Key = tuple[Any, ...]
K = TypeVar("K")
T = TypeVar("T")
_MOST_KNOWN = 10_000


def key_of(scenario: Scenario) -> Key | None:
    """What the scenarios of a group have in common; None where a scenario has to be planned by itself.

    Models, workloads and the like are told apart by identity: comparing them would cost more than planning.
    """
    remote, link, pd, service = scenario.remote, scenario.link, scenario.pd, scenario.service
    if remote is None or link is None or not scenario.can_offload:
        return None
    if scenario.estimator != "expected-time" or service.ttft or service.local_prefill != "dedicated":
        return None
    shared = (scenario.model, scenario.workload, service, remote.admission, pd.admission, link.route)
    names = (remote.name, remote.hardware, pd.name, pd.hardware, scenario.baseline.hardware)
    return (*map(id, shared), *names)


class Group:
    """What the scenarios of one key share. It is made from one of them.

    Attributes:
        shortest: the shortest whole length, tokens.
        tables: their loads at every threshold.
        thresholds: how many there are.
        prefill_times: their prefill times at any.
        admitted: what requests they take.
        provenance: of their figures.
    """

    def __init__(self, example: Scenario, tables: LoadTables) -> None:
        self._example = example
        self.shortest = math.ceil(tables.low)
        self.tables, self.prefill_times = tables, PrefillTimes(tables)
        self.thresholds = len(tables.local_s)
        self.admitted = eligible(example)
        clusters = [cluster for cluster in (example.remote, example.pd) if cluster]
        self.provenance = {each.name: provenance_of(profile_of(example, each), each) for each in clusters}
        self._has_memory = profile_of(example, example.pd).memory is not None
        self._decoding: dict[Any, Decoding | None] = {}
        self._baseline_decode_rps: dict[float | None, float | None] = {}
        self._terms: dict[float | None, tuple[results.Term, ...]] = {}
        self.baseline_local_s = self._local_s_of_baseline()

    def decoding(self, scenario: Scenario) -> Decoding | None:
        """How a scenario decodes; None where it can't."""
        if self._has_memory:  # KVCache in flight takes some of it, as the link has it
            return _or_none(lambda: decoding_of(scenario))
        return _known(self._decoding, scenario.tokens_per_s, lambda: _or_none(lambda: decoding_of(scenario)))

    def baselines(self, scenarios: Sequence[Scenario]) -> tuple[Ints, Floats]:
        """Instances of each scenario's homogeneous baseline, and requests/s that one finishes; nan where none can."""
        counts = [
            each.baseline.instances or each.pd.instances + (each.remote.instances if each.remote else 0)
            for each in scenarios
        ]
        rates = (self._baseline_decode_of(each) for each in scenarios)
        return np.array(counts, dtype=np.int64), _floats(np.nan if rate is None else rate for rate in rates)

    def _baseline_decode_of(self, scenario: Scenario) -> float | None:
        """Requests/s that one instance of the homogeneous baseline finishes; None where there can be no baseline."""
        hardware = scenario.baseline.hardware or scenario.pd.hardware
        if hardware == scenario.pd.hardware and not self._has_memory:
            decoded = self.decoding(scenario)
            return decoded.rps_per_instance if decoded else None

        def rate() -> float | None:
            decoded = _or_none(lambda: decoding_of(homogeneous_scenario(scenario)))
            return decoded.rps_per_instance if decoded else None

        return _known(self._baseline_decode_rps, scenario.tokens_per_s, rate)

    def terms(self, scenario: Scenario) -> tuple[results.Term, ...]:
        """What of a scenario goes beyond the paper's model."""
        price = scenario.link.price_per_gb if scenario.link else None
        return _known(self._terms, price, lambda: terms_in_words(scenario))

    def _local_s_of_baseline(self) -> float | None:
        """Mean seconds that a request takes of a baseline instance; None where there can be no baseline."""
        baseline = dataclasses.replace(self._example.baseline, instances=2)
        several = homogeneous_scenario(dataclasses.replace(self._example, baseline=baseline, tokens_per_s=None))
        problem = _or_none(lambda: two_pool_problem(several))
        return problem.local_total_s if problem else None


def group_of(scenario: Scenario) -> Group | None:
    """The group of a scenario's key; None where its scenarios have to be planned one by one.

    Raises:
        PrfaasOptError: this scenario can't be planned; others of its key may.
    """
    tables = tables_of(two_pool_problem(scenario))
    return Group(scenario, tables) if tables else None


def capacities(scenarios: Sequence[Scenario], decoded: Sequence[Decoding]) -> Capacities:
    """What the scenarios of a group differ in."""
    remotes = [scenario.remote for scenario in scenarios if scenario.remote]
    pds = [scenario.pd for scenario in scenarios]
    return Capacities(
        _floats(each.instances * each.max_utilization for each in remotes),
        _floats(carried_by_link(scenario).bytes_per_s for scenario in scenarios),
        np.array([each.instances for each in pds], dtype=np.int64),
        _floats(each.max_utilization for each in pds),
        _floats(each.rps_per_instance for each in decoded),
    )


def _floats(values: Any) -> Floats:
    return np.fromiter(values, np.float64)


def _known(known: dict[K, T], key: K, make: Callable[[], T]) -> T:
    """What is known of a key, or made and kept; a study may have as many keys as rows, so that not all are kept."""
    if key not in known:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[key] = make()
    return known[key]


def _or_none(make: Callable[[], T]) -> T | None:
    try:
        return make()
    except PrfaasOptError:
        return None
