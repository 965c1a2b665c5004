"""From a solution to a plan: the figures of a deployment, all from the equations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prfaas_opt import results, units
from prfaas_opt.latency.ttft import LatencyBand, Ttft
from prfaas_opt.planning.build import decode_batch, instance_usd_per_hour, profile_of
from prfaas_opt.planning.evaluate import certify, evaluate
from prfaas_opt.scenario import ESTIMATORS

if TYPE_CHECKING:
    from prfaas_opt.planning.certificate import Prices
    from prfaas_opt.planning.evaluate import Rates
    from prfaas_opt.planning.problem import Decision, TwoPoolProblem
    from prfaas_opt.planning.split import Solution
    from prfaas_opt.profiles.model import Profile
    from prfaas_opt.scenario import Cluster, Scenario

_BINDS = 0.995
_OPTIMAL = 1e-6


def describe(scenario: Scenario, problem: TwoPoolProblem, solution: Solution, name: results.Name) -> results.Plan:
    """The plan that a solution amounts to.

    Raises:
        CertificationError: the equations do not give the throughput that the solver claims.
    """
    decision = solution.decision
    rates = certify(problem, decision)
    bound = None if solution.bound_rps is None else max(solution.bound_rps, rates.throughput_rps)
    gap = None if bound is None else 1.0 - rates.throughput_rps / bound
    tie_loss = None if solution.shared_rps is None else max(0.0, 1.0 - rates.throughput_rps / solution.shared_rps)
    proven = gap is not None and tie_loss is not None and gap - tie_loss <= _OPTIMAL
    routing = _routing(problem, decision)
    threshold = routing.bands[0].to_tokens if routing.kind == "threshold" else None
    utilization, ceilings = _utilization(scenario, problem, decision, rates)
    mean_s, p90_s = _ttft(problem, decision)
    by_estimator = {e: evaluate(problem, decision, e).throughput_rps for e in ESTIMATORS}
    pd = scenario.pd
    return results.Plan(
        name=name,
        ratio=None,
        status="optimal" if proven else "threshold-optimal" if solution.best_threshold else "feasible",
        routing=routing,
        threshold_tokens=threshold,
        offload_share=rates.means.offload_share,
        instances=results.Instances(
            prfaas=scenario.remote.instances if scenario.remote else 0,
            pd_prefill=decision.prefill_instances,
            pd_decode=pd.instances - decision.prefill_instances,
        ),
        paths=_paths(scenario, rates),
        throughput_rps=rates.throughput_rps,
        estimator=problem.estimator,
        throughput_rps_by_estimator=results.EstimatedThroughput(
            mean_length=by_estimator["mean-length"], expected_time=by_estimator["expected-time"]
        ),
        stages_rps=results.StageRates(rates.theta_prfaas, rates.theta_pd_prefill, rates.theta_pd_decode),
        utilization=utilization,
        bottlenecks=_bottlenecks(utilization, ceilings),
        egress_gbps=units.to_gbps(rates.egress_bytes_per_s),
        ttft_s=results.Ttft(mean_s, p90_s),
        bound_rps=bound,
        gap_share=gap,
        tie_loss_share=tie_loss,
        shadow_prices=_shadow_prices(scenario, problem, decision, solution.prices),
        near_optimal_threshold_tokens=solution.near_optimal_tokens if threshold is not None else None,
        what_ifs=(),
        sensitivity=None,
        solver_check=None,
        decode_batch=decode_batch(scenario, profile_of(scenario, pd)),
        cost=_cost(scenario, rates.throughput_rps),
        provenance={c.name: _provenance(profile_of(scenario, c), c) for c in (scenario.remote, pd) if c},
    )


_KINDS: dict[tuple[results.Pool, ...], results.Kind] = {
    ("pd_prefill",): "all-local",
    ("prfaas",): "all-remote",
    ("pd_prefill", "prfaas"): "threshold",
}
"""Kind of a routing by the pools of its bands, shortest lengths first; any other is bands."""


def _routing(problem: TwoPoolProblem, decision: Decision) -> results.Routing:
    lengths = problem.lengths
    first, last = math.ceil(lengths.low), lengths.last_threshold
    pools: tuple[results.Pool, results.Pool] = ("pd_prefill", "prfaas")
    served = [
        (each, pool) for pool, ranges in zip(pools, (decision.kept, decision.offloaded), strict=True) for each in ranges
    ]
    bands = tuple(
        results.Band(int(max(low + 1, first)), int(min(high, last)), pool)
        for (low, high), pool in sorted(served)
        if lengths.moment(0.0, low, high) > 0
    )
    return results.Routing(_KINDS.get(tuple(band.pool for band in bands), "bands"), bands)


def _paths(scenario: Scenario, rates: Rates) -> tuple[results.Path, ...]:
    p, total, pd = rates.means.offload_share, rates.throughput_rps, scenario.pd.name
    model, remote = scenario.model.name, scenario.remote
    paths = []
    if remote is not None and p > 0:
        paths.append(results.Path(model=model, from_=remote.name, to=pd, pool="prfaas", rate_rps=total * p))
    if p < 1:
        paths.append(results.Path(model=model, from_=pd, to=pd, pool="pd_prefill", rate_rps=total * (1 - p)))
    return tuple(paths)


def _utilization(
    scenario: Scenario, problem: TwoPoolProblem, decision: Decision, rates: Rates
) -> tuple[results.Utilization, dict[results.Stage, float]]:
    """Shares of full capacity in use, and the ceiling of each."""
    means, total = rates.means, rates.throughput_rps
    remote, link, pd = scenario.remote, scenario.link, scenario.pd
    local = decision.prefill_instances
    prefill = total * (1 - means.offload_share) * (means.local_s or 0.0) / local if local else None
    decode = total / (problem.decode_rps_per_instance * (pd.instances - local))
    used = results.Utilization(
        prfaas=total * means.offload_share * (means.remote_s or 0.0) / remote.instances if remote else None,
        pd_prefill=prefill,
        pd_decode=decode,
        egress=rates.egress_bytes_per_s / link.bandwidth_bytes_per_s if link and link.bandwidth_bytes_per_s else None,
    )
    ceilings: dict[results.Stage, float] = {
        "prfaas": remote.max_utilization if remote else 1.0,
        "pd_prefill": pd.max_utilization,
        "pd_decode": pd.max_utilization,
        "egress": link.max_utilization if link else 1.0,
    }
    return used, ceilings


def _bottlenecks(used: results.Utilization, ceilings: dict[results.Stage, float]) -> tuple[results.Stage, ...]:
    return tuple(stage for stage, ceiling in ceilings.items() if (getattr(used, stage) or 0.0) >= _BINDS * ceiling)


def _ttft(problem: TwoPoolProblem, decision: Decision) -> tuple[float, float]:
    """Mean and P90 of the prefill time, s."""
    lengths, remote = problem.lengths, problem.remote
    bands = [LatencyBand(*each, problem.local_prefill_s) for each in decision.kept]
    bands += [LatencyBand(*each, remote.prefill_s) for each in decision.offloaded if remote]
    bands = [band for band in bands if lengths.moment(0.0, band.low, band.high) > 0]
    ttft = Ttft(lengths, bands)
    return ttft.mean_s, ttft.quantile_s(0.9)


def _shadow_prices(
    scenario: Scenario, problem: TwoPoolProblem, decision: Decision, prices: Prices | None
) -> results.ShadowPrices | None:
    if prices is None:
        return None
    remote, link = scenario.remote, scenario.link
    return results.ShadowPrices(
        prfaas_instance_rps=prices.remote_rps * remote.max_utilization if remote else None,
        pd_prefill_instance_rps=prices.local_rps * problem.pd_ceiling if decision.prefill_instances else None,
        pd_decode_instance_rps=prices.decode_rps * problem.pd_ceiling,
        egress_rps_per_gbps=prices.link_rps_per_byte_per_s * link.max_utilization * units.GBPS
        if link and link.bandwidth_bytes_per_s
        else None,
    )


def _cost(scenario: Scenario, throughput_rps: float) -> results.Cost | None:
    clusters: list[Cluster] = [c for c in (scenario.remote, scenario.pd) if c]
    usd_per_hour = 0.0
    for cluster in clusters:
        price = instance_usd_per_hour(scenario, cluster)
        if price is None:
            return None
        usd_per_hour += cluster.instances * price
    if usd_per_hour == 0:
        return None
    return results.Cost(usd_per_hour, throughput_rps * units.HOUR_S / usd_per_hour, None)


def _provenance(profile: Profile, cluster: Cluster) -> results.PoolProvenance:
    sources = profile.provenance
    decode = str(sources["decode"]) if cluster.role == "pd" and "decode" in sources else None
    return results.PoolProvenance(profile.hardware, str(sources["prefill"]), str(sources["kv_cache"]), decode)
