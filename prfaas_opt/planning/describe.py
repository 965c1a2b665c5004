"""From a solution to a plan: the figures of a deployment, all from the equations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from prfaas_opt import results, units
from prfaas_opt.latency.ttft import LatencyBand, Ttft
from prfaas_opt.planning.build import (
    carried_by_link,
    carried_of_request,
    decoding_of,
    limits_of_decode,
    profile_of,
)
from prfaas_opt.planning.cost import usd_per_byte, usd_per_hour
from prfaas_opt.planning.eligibility import eligible
from prfaas_opt.planning.evaluate import certify, evaluate
from prfaas_opt.planning.problem import OnDecodeProblem
from prfaas_opt.planning.terms_in_words import terms_in_words

if TYPE_CHECKING:
    from prfaas_opt.planning.certificate import Prices
    from prfaas_opt.planning.evaluate import Rates
    from prfaas_opt.planning.problem import Decision, TwoPoolProblem
    from prfaas_opt.planning.split import Solution
    from prfaas_opt.profiles.model import Profile
    from prfaas_opt.scenario import Cluster, Scenario
    from prfaas_opt.throughput.link import Carried

_BINDS = 0.995
_OPTIMAL = 1e-6


class Evaluated(Struct, frozen=True):
    """What the equations make of a decision, and what a plan says beside.

    Attributes:
        rates: under the problem's estimator.
        mean_length_rps, expected_time_rps: throughput under either estimator.
        ttft_s: mean and P90 of the prefill time.
        routing: by bands of length.
        sent_bytes: per request of all.
        carried: what the link carries.
        decode, terms, stay_share, unservable_share, provenance: as a plan has them.
    """

    rates: Rates
    mean_length_rps: float
    expected_time_rps: float
    ttft_s: results.Ttft
    routing: results.Routing
    sent_bytes: float
    carried: Carried
    decode: results.DecodePoint
    terms: tuple[results.Term, ...]
    stay_share: float
    unservable_share: float
    provenance: dict[str, results.PoolProvenance]


def describe(
    scenario: Scenario,
    problem: TwoPoolProblem,
    solution: Solution,
    name: results.Name,
    served_rps: float | None = None,
) -> results.Plan:
    """The plan that a solution amounts to.

    Args:
        scenario, problem: what is planned.
        solution: its decision.
        name: of the deployment.
        served_rps: what it serves, where that is less than its capacity.

    Raises:
        CertificationError: the equations do not give the throughput that the solver claims.
    """
    decision, admitted = solution.decision, eligible(scenario)
    clusters = [cluster for cluster in (scenario.remote, scenario.pd) if cluster]
    evaluated = Evaluated(
        rates=certify(problem, decision),
        mean_length_rps=evaluate(problem, decision, "mean-length").throughput_rps,
        expected_time_rps=evaluate(problem, decision, "expected-time").throughput_rps,
        ttft_s=_ttft(problem, decision),
        routing=_routing(problem, decision),
        sent_bytes=problem.loads(decision.offloaded).sent_bytes,
        carried=carried_by_link(scenario),
        decode=_decode(scenario, problem, decision),
        terms=terms_in_words(scenario),
        stay_share=admitted.share_without_choice if scenario.can_offload else 0.0,
        unservable_share=admitted.unservable_share,
        provenance={each.name: provenance_of(profile_of(scenario, each), each) for each in clusters},
    )
    return plan_of(scenario, problem, solution, name, evaluated, served_rps)


def plan_of(
    scenario: Scenario,
    problem: TwoPoolProblem,
    solution: Solution,
    name: results.Name,
    evaluated: Evaluated,
    served_rps: float | None = None,
) -> results.Plan:
    """The plan of a solution whose decision has been evaluated; the other arguments are those of ``describe``."""
    decision, rates, routing, carried = solution.decision, evaluated.rates, evaluated.routing, evaluated.carried
    bound = None if solution.bound_rps is None else max(solution.bound_rps, rates.throughput_rps)
    gap = None if bound is None else 1.0 - rates.throughput_rps / bound
    tie_loss = None if solution.shared_rps is None else max(0.0, 1.0 - rates.throughput_rps / solution.shared_rps)
    prefilling, decoding = problem.roles(decision.split)
    proven = gap is not None and tie_loss is not None and gap - tie_loss <= _OPTIMAL
    threshold = routing.bands[0].to_tokens if routing.kind == "threshold" else None
    utilization = utilization_at(scenario, problem, decision, rates, rates.throughput_rps)
    served_rps = rates.throughput_rps if served_rps is None else served_rps
    return results.Plan(
        name=name,
        ratio=None,
        status="optimal" if proven else "threshold-optimal" if solution.best_threshold else "feasible",
        routing=routing,
        threshold_tokens=threshold,
        offload_share=rates.means.offload_share,
        instances=results.Instances(
            prfaas=scenario.remote.instances if scenario.remote else 0,
            pd_prefill=prefilling,
            pd_decode=decoding,
        ),
        paths=_paths(scenario, problem, rates),
        throughput_rps=rates.throughput_rps,
        estimator=problem.estimator,
        throughput_rps_by_estimator=results.EstimatedThroughput(
            mean_length=evaluated.mean_length_rps, expected_time=evaluated.expected_time_rps
        ),
        stages_rps=results.StageRates(rates.theta_prfaas, rates.theta_pd_prefill, rates.theta_pd_decode),
        utilization=utilization,
        bottlenecks=_bottlenecks(utilization, _ceilings(scenario, problem, decision, carried)),
        egress_gbps=units.to_gbps(rates.egress_bytes_per_s),
        ttft_s=evaluated.ttft_s,
        bound_rps=bound,
        gap_share=gap,
        tie_loss_share=tie_loss,
        shadow_prices=_shadow_prices(scenario, problem, decision, solution.prices, carried),
        near_optimal_threshold_tokens=solution.near_optimal_tokens if threshold is not None else None,
        what_ifs=(),
        sensitivity=None,
        solver_check=None,
        decode_batch=evaluated.decode.batch,
        cost=cost_of(scenario, evaluated.sent_bytes, served_rps),
        objective="throughput",
        served_rps=served_rps,
        operating_point=None,
        ttft_by_load=(),
        link=_link(scenario, carried),
        decode=evaluated.decode,
        failures=(),
        robust=None,
        terms=evaluated.terms,
        stay_share=evaluated.stay_share,
        unservable_share=evaluated.unservable_share,
        baselines=(),
        provenance=evaluated.provenance,
    )


_KINDS: dict[tuple[results.Pool, ...], results.Kind] = {
    ("pd_prefill",): "all-local",
    ("pd_decode",): "all-local",
    ("prfaas",): "all-remote",
    ("pd_prefill", "prfaas"): "threshold",
    ("pd_decode", "prfaas"): "threshold",
}
"""Kind of a routing by the pools of its bands, shortest lengths first; any other is bands."""


def _routing(problem: TwoPoolProblem, decision: Decision) -> results.Routing:
    lengths, served = problem.lengths, problem.served
    first, last = math.ceil(served.low), served.last_threshold
    longest = problem.staying.longest_remote_tokens
    ranges = [(each, local_pool(problem)) for each in decision.kept] + [(each, "prfaas") for each in decision.offloaded]
    served_in = [
        ((low, min(high, longest)), pool)
        for (low, high), pool in ranges
        if lengths.moment(0.0, low, min(high, longest)) > 0
    ]
    if served.share_above(longest) > 0:
        served_in.append(((longest, math.inf), local_pool(problem)))
    bands: list[results.Band] = []
    for (low, high), pool in sorted(served_in):
        band = results.Band(int(max(low + 1, first)), int(min(high, last)), pool)
        if bands and bands[-1].pool == pool:
            band = results.Band(bands.pop().from_tokens, band.to_tokens, pool)
        bands.append(band)
    return results.Routing(_KINDS.get(tuple(band.pool for band in bands), "bands"), tuple(bands))


def local_pool(problem: TwoPoolProblem) -> results.Pool:
    """Where requests that stay prefill."""
    return "pd_decode" if isinstance(problem, OnDecodeProblem) else "pd_prefill"


def _paths(scenario: Scenario, problem: TwoPoolProblem, rates: Rates) -> tuple[results.Path, ...]:
    p, total, pd = rates.means.offload_share, rates.throughput_rps, scenario.pd.name
    model, remote = scenario.model.name, scenario.remote
    paths = []
    if remote is not None and p > 0:
        paths.append(results.Path(model=model, from_=remote.name, to=pd, pool="prfaas", rate_rps=total * p))
    if p < 1:
        paths.append(results.Path(model=model, from_=pd, to=pd, pool=local_pool(problem), rate_rps=total * (1 - p)))
    return tuple(paths)


def utilization_at(
    scenario: Scenario, problem: TwoPoolProblem, decision: Decision, rates: Rates, rate_rps: float
) -> results.Utilization:
    """Shares of full capacity in use at a rate."""
    means, remote, link = rates.means, scenario.remote, scenario.link
    prefilling, decoding = problem.roles(decision.split)
    local = prefilling or (decoding if isinstance(problem, OnDecodeProblem) else 0)
    egress = rate_rps * means.offload_share * (means.sent_bytes or 0.0)
    return results.Utilization(
        prfaas=rate_rps * means.offload_share * (means.remote_s or 0.0) / remote.instances if remote else None,
        pd_prefill=rate_rps * (1 - means.offload_share) * (means.local_s or 0.0) / local if local else None,
        pd_decode=rate_rps / (rates.theta_pd_decode / scenario.pd.max_utilization)
        if isinstance(problem, OnDecodeProblem)
        else rate_rps / (problem.decode_rps_per_instance * decoding),
        egress=egress / link.bandwidth_bytes_per_s if link and link.bandwidth_bytes_per_s else None,
    )


def _ceilings(
    scenario: Scenario, problem: TwoPoolProblem, decision: Decision, carried: Carried
) -> dict[results.Stage, float]:
    """What may be used of each stage's full capacity."""
    remote, link, pd = scenario.remote, scenario.link, scenario.pd
    nominal = link.bandwidth_bytes_per_s if link else 0.0
    on_decode = problem.at_batch[decision.split].prefill_share if isinstance(problem, OnDecodeProblem) else None
    return {
        "prfaas": remote.max_utilization if remote else 1.0,
        "pd_prefill": pd.max_utilization if on_decode is None else on_decode,
        "pd_decode": pd.max_utilization,
        "egress": carried.bytes_per_s / nominal if nominal else 1.0,
    }


def _bottlenecks(used: results.Utilization, ceilings: dict[results.Stage, float]) -> tuple[results.Stage, ...]:
    shares = ((stage, getattr(used, stage) or 0.0, ceiling) for stage, ceiling in ceilings.items())
    return tuple(stage for stage, share, ceiling in shares if share > 0 and share >= _BINDS * ceiling)


def _ttft(problem: TwoPoolProblem, decision: Decision) -> results.Ttft:
    """Mean and P90 of the prefill time."""
    remote = problem.remote
    shares = [(each, problem.local_latency_s, share) for each, share in problem.local_shares(decision)]
    shares += [(each, remote.latency_s, share) for each, share in problem.remote_shares(decision) if remote]
    bands = [
        LatencyBand(*each, curve, share)
        for each, curve, share in shares
        if share > 0 and problem.served.moment(0.0, *each) > 0
    ]
    ttft = Ttft(problem.served, bands)
    return results.Ttft(ttft.mean_s, ttft.quantile_s(0.9))


def _shadow_prices(
    scenario: Scenario, problem: TwoPoolProblem, decision: Decision, prices: Prices | None, carried: Carried
) -> results.ShadowPrices | None:
    if prices is None:
        return None
    remote, link = scenario.remote, scenario.link
    prefilling, decoding = problem.roles(decision.split)
    link_binds = link is not None and carried.limited_by == "bandwidth"
    return results.ShadowPrices(
        prfaas_instance_rps=prices.remote_rps * remote.max_utilization if remote else None,
        pd_prefill_instance_rps=prices.local_rps * problem.pd_ceiling if prefilling else None,
        pd_decode_instance_rps=prices.local_rps * prices.usable_local / decoding
        if isinstance(problem, OnDecodeProblem)
        else prices.decode_rps * problem.pd_ceiling,
        egress_rps_per_gbps=prices.link_rps_per_byte_per_s * link.max_utilization * units.GBPS * link_binds
        if link and link.bandwidth_bytes_per_s
        else None,
    )


def cost_of(scenario: Scenario, sent_bytes: float, served_rps: float) -> results.Cost | None:
    """What a deployment costs that serves a rate and sends so many bytes a request; None without prices."""
    hourly = usd_per_hour(scenario)
    if hourly is None or served_rps <= 0:
        return None
    egress = served_rps * sent_bytes * usd_per_byte(scenario) * units.HOUR_S
    total = hourly + egress
    if total == 0:
        return None
    per_hour = served_rps * units.HOUR_S
    return results.Cost(total, per_hour / total, None, 1000.0 * total / per_hour, egress, None, None)


def _link(scenario: Scenario, link: Carried) -> results.CarriedBy | None:
    if scenario.link is None or scenario.remote is None:
        return None
    request = carried_of_request(scenario, link)
    gbps = [units.to_gbps(each.bytes_per_s) for each in (link, request)]
    return results.CarriedBy(gbps[0], link.limited_by, gbps[1], request.limited_by)


def _decode(scenario: Scenario, problem: TwoPoolProblem, decision: Decision) -> results.DecodePoint:
    largest = decoding_of(scenario)
    batch, most_share = largest.batch, None
    if isinstance(problem, OnDecodeProblem):
        batch, most_share = decision.split, problem.at_batch[decision.split].prefill_share
    step_s = limits_of_decode(scenario).step_s(batch)
    limited_by = largest.limited_by if batch == largest.batch else "prefill"
    return results.DecodePoint(batch, step_s, largest.context_tokens, limited_by, most_share)


def provenance_of(profile: Profile, cluster: Cluster) -> results.PoolProvenance:
    """Where the figures of a cluster come from."""
    sources = profile.provenance
    decode = str(sources["decode"]) if cluster.role == "pd" and "decode" in sources else None
    return results.PoolProvenance(profile.hardware, str(sources["prefill"]), str(sources["kv_cache"]), decode)
