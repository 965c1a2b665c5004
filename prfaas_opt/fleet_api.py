"""The public Python API for any number of clusters: planning a fleet, and sizing one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError, Problem
from prfaas_opt.fleet import Fleet, fleet_of
from prfaas_opt.fleet_results import FAILURE_KINDS, FailureKind, FleetPlan, SizePoint, Sizing
from prfaas_opt.io.scenario_file import load_any, load_fleet
from prfaas_opt.planning.cost import missing_price
from prfaas_opt.planning.fleets.changes import with_demand_times
from prfaas_opt.planning.options import SolverOptions
from prfaas_opt.scenario import Scenario

if TYPE_CHECKING:
    from prfaas_opt.planning.fleets.search import Progress
    from prfaas_opt.planning.fleets.solve import Solved
    from prfaas_opt.planning.fleets.survival import Surviving

__all__ = ["fleet_warnings", "load_any", "load_fleet", "plan_fleet", "size"]

Source = Fleet | Scenario | str | Path | Mapping[str, Any] | None

DEFAULT_OPTIONS = SolverOptions()
PLAN_GAP_SHARE = 1e-6
"""The gap at which a fleet's plan counts as optimal, unless another is asked for."""
SIZE_GAP_SHARE = 1e-3
"""The gap at which a sized fleet does: integer counts of many teams are hard to prove further."""
TIME_LIMIT_S = 60.0
"""How long a search may take, unless told otherwise."""


def _quiet(_: Progress) -> None:
    """Reports to nobody."""


def plan_fleet(
    source: Source = None,
    options: SolverOptions = DEFAULT_OPTIONS,
    sensitivity: bool = False,
    on_progress: Callable[[Progress], None] = _quiet,
    failures: bool = False,
) -> FleetPlan:
    """The largest throughput of a fleet, its streams in proportion to their demands, with its proof.

    Args:
        source: a loaded fleet or scenario, a file, a mapping of a file's form, or None for the paper's case study.
        options: the solver and its limits; by default HiGHS, 60 s and a gap of 1e-6.
        sensitivity: also plan anew with one more instance's GPUs of each kind, with a tenth more of each link, and
            with figures that are off.
        on_progress: told how far the search has come.
        failures: also what is served after the loss of each link, of one instance of each group, and of each cluster,
            with the roles as they are and with roles split anew.

    Raises:
        InputError: the scenario is wrong, has ranges to choose from, or asks for the mean-length estimator.
        InfeasibleError: some stream cannot be served; the problems are the constraints that conflict.
        SolverError: the solver is missing or failed, or was stopped before it found anything.

    >>> best = plan_fleet()
    >>> best.streams[0].threshold_tokens, round(best.throughput_rps, 2), best.status
    (19805, 3.15, 'optimal')
    """
    from prfaas_opt.planning.fleets.describe import describe
    from prfaas_opt.planning.fleets.failures import failures_of_plan
    from prfaas_opt.planning.fleets.robustness import fleet_deviations
    from prfaas_opt.planning.fleets.what_ifs import fleet_what_ifs

    fleet = _fleet(source)
    _refuse_ranges(fleet)
    options = _with_defaults(options, PLAN_GAP_SHARE)
    solved = _most(fleet, options, on_progress)
    best = describe(fleet, solved, _gap(options))
    if sensitivity:
        gains = fleet_what_ifs(fleet, best.throughput_rps, options)
        best = msgspec.structs.replace(best, what_ifs=gains, sensitivity=fleet_deviations(solved, options))
    if failures:
        best = msgspec.structs.replace(best, failures=failures_of_plan(solved, fleet.demand_rps, options))
    return best


def size(
    source: Source,
    demand_rps: float | None = None,
    budget_usd_per_hour: float | None = None,
    curve_rps: Sequence[float] = (),
    options: SolverOptions = DEFAULT_OPTIONS,
    on_progress: Callable[[Progress], None] = _quiet,
    survive: Sequence[FailureKind] = (),
) -> Sizing:
    """The cheapest fleet for a demand, or the fleet that serves most within a budget, with its plan.

    Counts and bandwidths that the scenario gives as ranges are chosen; prices that it does not give are zero.

    Args:
        source: as for ``plan_fleet``.
        demand_rps: requests/s of all streams together, in proportion to their demands; default: their sum.
        budget_usd_per_hour: what may be spent; the fleet then serves as much as it can.
        curve_rps: demands whose cheapest fleets are found too, one after the other.
        options: the solver and its limits, for each fleet; by default HiGHS, 60 s and a gap of 0.1 %.
        on_progress: told how far the search has come.
        survive: kinds of failure, ``link``, ``instance`` and ``site``: after the loss of any one link, of one instance
            of any group, or of any one cluster the whole demand is still served within the ceilings, the counts as
            they are and requests routed anew. It excludes a budget.

    Raises:
        InputError: the scenario is wrong, has no prices, or asks for the mean-length estimator; kinds of failure are
            unknown, or asked for with a budget.
        InfeasibleError: no fleet within the limits serves the demand, or survives the failures; the problems are the
            constraints that conflict, or the failures.
        SolverError: the solver is missing or failed, or was stopped before it found anything.
    """
    fleet = _fleet(source)
    _refuse_no_prices(fleet)
    if demand_rps is not None:
        fleet = at_demand(fleet, demand_rps)
    options = _with_defaults(options, SIZE_GAP_SHARE)
    kinds = _kinds(survive, budget_usd_per_hour)
    if kinds:
        sizing = _least_cost_surviving(fleet, kinds, options, on_progress)
    elif budget_usd_per_hour is None:
        sizing = _least_cost(fleet, options, on_progress)
    else:
        sizing = _for_budget(fleet, budget_usd_per_hour, options, on_progress)
    if not curve_rps:
        return sizing
    points = tuple(_point(at_demand(fleet, demand), options, on_progress, kinds) for demand in curve_rps)
    return msgspec.structs.replace(sizing, curve=points)


def at_demand(fleet: Fleet, demand_rps: float) -> Fleet:
    """The fleet with its demands multiplied so that they sum up to this many requests/s."""
    return with_demand_times(fleet, demand_rps / fleet.demand_rps)


def fleet_warnings(fleet: Fleet) -> tuple[str, ...]:
    """What a reader of this fleet's results should know, in sentences."""
    from prfaas_opt.planning.notes import share_outside

    notes = [note for stream in fleet.streams for note in stream.model.warnings]
    held = dict.fromkeys(holding.hardware for site in fleet.sites for holding in site.holdings)
    for stream in fleet.streams:
        profiles = [profile for hardware in held if (profile := stream.model.profile(hardware)) is not None]
        beyond = {profile.hardware: share_outside(stream.workload, profile) for profile in profiles}
        outside = [hardware for hardware, share in beyond.items() if share > 0]
        if outside:
            notes.append(
                f"{stream.name}: {units.format_some_share(max(beyond.values()))} of requests are shorter or longer "
                f"than the figures of {', '.join(outside)}; what its profiles assume beyond them is taken"
            )
    return tuple(dict.fromkeys(notes))


def _fleet(source: Source) -> Fleet:
    fleet = source if isinstance(source, Fleet) else None
    if isinstance(source, Scenario):
        fleet = fleet_of(source)
    if fleet is None:
        assert not isinstance(source, Scenario | Fleet)
        fleet = load_fleet(source)
    if fleet.estimator != "expected-time":
        message = f"found {fleet.estimator}, expected expected-time: a fleet is planned under mean service times"
        raise InputError(Problem("not-supported", fleet.origin.where(("estimator",)), message, "leave it out"))
    _refuse_terms_of_two_pools(fleet)
    return fleet


def _refuse_terms_of_two_pools(fleet: Fleet) -> None:
    """Refuses what only a plan of two pools takes into account: here it would be ignored."""
    service = fleet.service
    stated: list[tuple[tuple[str, ...], bool]] = [
        (("arrivals",), "arrivals" in service.given),
        (("slo", "ttft"), bool(service.ttft)),
        (("local_prefill",), service.local_prefill == "on_decode"),
        (("residency",), service.stay_share > 0),
    ]
    for site in fleet.sites:
        for key, limit in (
            ("max_context", site.admission.max_context_tokens),
            ("nic", site.admission.nic_bytes_per_s),
        ):
            stated.append((("clusters", site.name, key), limit is not None))
    problems = [
        Problem(
            "not-supported",
            fleet.origin.where(path),
            f"{path[-1]} is taken into account in plans of two pools only, not in fleets and sizes",
            f"leave {path[-1]} out, or use prfaas-opt plan on two pools",
        )
        for path, given in stated
        if given
    ]
    if problems:
        raise InputError(problems)


def _refuse_ranges(fleet: Fleet) -> None:
    problems = []
    fix = "give one number, or let prfaas-opt size choose within the range"
    for site in fleet.sites:
        for holding in site.holdings:
            if not holding.gpus.given:
                message = f"{holding.hardware} in {site.name} has a range of counts, a plan needs one"
                problems.append(Problem("range", fleet.origin.where(("clusters", site.name)), message, fix))
    for index, link in enumerate(fleet.connections):
        if not link.bandwidth_bytes_per_s.given:
            message = f"from {link.source} to {link.destination} has a range, a plan needs one bandwidth"
            problems.append(Problem("range", fleet.origin.where(("links", index, "bandwidth")), message, fix))
    if problems:
        raise InputError(problems)


def _refuse_no_prices(fleet: Fleet) -> None:
    missing = [
        missing_price(fleet.origin, site.name, holding.hardware)
        for site in fleet.sites
        for holding in site.holdings
        if holding.usd_per_gpu_hour is None
    ]
    if missing:
        raise InputError(missing)


def _kinds(survive: Sequence[FailureKind], budget_usd_per_hour: float | None) -> tuple[FailureKind, ...]:
    """The kinds of failure asked for, in the order of ``FAILURE_KINDS``."""
    unknown = [kind for kind in survive if kind not in FAILURE_KINDS]
    if unknown:
        message = f"found {unknown[0]!r}, expected {', '.join(FAILURE_KINDS)}, or some of them"
        raise InputError(Problem("bad-value", "survive", message, f"write {','.join(FAILURE_KINDS)}"))
    if survive and budget_usd_per_hour is not None:
        message = "a budget cannot be spent on a fleet that survives failures yet"
        raise InputError(Problem("not-supported", "survive", message, "leave the budget out, and give a demand"))
    return tuple(kind for kind in FAILURE_KINDS if kind in survive)


def _with_defaults(options: SolverOptions, gap_share: float) -> SolverOptions:
    if options.solver != "HIGHS":
        return options
    return dataclasses.replace(
        options,
        time_limit_s=TIME_LIMIT_S if options.time_limit_s is None else options.time_limit_s,
        mip_gap_share=gap_share if options.mip_gap_share is None else options.mip_gap_share,
    )


def _gap(options: SolverOptions) -> float:
    return PLAN_GAP_SHARE if options.mip_gap_share is None else options.mip_gap_share


def _most(
    fleet: Fleet, options: SolverOptions, on_progress: Callable[[Progress], None], budget: float | None = None
) -> Solved:
    from prfaas_opt.planning.fleets.conflicts import explain
    from prfaas_opt.planning.fleets.network import network_of
    from prfaas_opt.planning.fleets.solve import most_scale

    solved = most_scale(network_of(fleet), options, _gap(options), on_progress, budget)
    if solved is None:
        raise InfeasibleError(explain(fleet, options, any_rate=True, budget_usd_per_hour=budget))
    return solved


def _least_cost(fleet: Fleet, options: SolverOptions, on_progress: Callable[[Progress], None]) -> Sizing:
    from prfaas_opt.planning.fleets.conflicts import explain
    from prfaas_opt.planning.fleets.network import network_of
    from prfaas_opt.planning.fleets.solve import least_cost

    solved = least_cost(network_of(fleet), options, _gap(options), on_progress)
    if solved is None:
        raise InfeasibleError(explain(fleet, options))
    return _sized(fleet, solved, options)


def _sized(fleet: Fleet, solved: Solved, options: SolverOptions) -> Sizing:
    """The answer that the cheapest fleet found amounts to."""
    from prfaas_opt.planning.fleets.describe import describe

    described = describe(fleet, solved, _gap(options))
    usd = solved.usd_per_hour
    return Sizing(
        goal="least-cost",
        status=described.status,
        stopped=solved.found.stopped,
        demand_rps=fleet.demand_rps,
        budget_usd_per_hour=None,
        usd_per_hour=usd,
        bound_usd_per_hour=min(solved.bound, usd),
        bound_rps=None,
        gap_share=solved.gap_share,
        mip_gap_share=_gap(options),
        usd_per_million_requests=_per_million(usd, fleet.demand_rps),
        plan=described,
        curve=None,
    )


def _least_cost_surviving(
    fleet: Fleet, kinds: tuple[FailureKind, ...], options: SolverOptions, on_progress: Callable[[Progress], None]
) -> Sizing:
    from prfaas_opt.planning.fleets.conflicts import explain
    from prfaas_opt.planning.fleets.survival import NoneSurvivesError
    from prfaas_opt.planning.fleets.unsurvivable import why_none_survives

    try:
        surviving = _surviving(fleet, kinds, options, on_progress)
    except NoneSurvivesError as none:
        if none.failures:
            raise InfeasibleError(why_none_survives(fleet, none.failures, kinds, options)) from None
        raise InfeasibleError(explain(fleet, options)) from None
    return msgspec.structs.replace(
        _sized(fleet, surviving.solved, options),
        survives=kinds,
        failures=surviving.rows,
        unprotected_usd_per_hour=surviving.unprotected_usd_per_hour,
    )


def _surviving(
    fleet: Fleet, kinds: tuple[FailureKind, ...], options: SolverOptions, on_progress: Callable[[Progress], None]
) -> Surviving:
    from prfaas_opt.planning.fleets.network import network_of
    from prfaas_opt.planning.fleets.states import failures_of
    from prfaas_opt.planning.fleets.survival import least_cost_surviving

    network = network_of(fleet)
    return least_cost_surviving(network, failures_of(network, kinds), options, _gap(options), on_progress)


def _for_budget(fleet: Fleet, budget: float, options: SolverOptions, on_progress: Callable[[Progress], None]) -> Sizing:
    from prfaas_opt.planning.fleets.describe import describe

    solved = _most(fleet, options, on_progress, budget)
    described = describe(fleet, solved, _gap(options))
    return Sizing(
        goal="budget",
        status=described.status,
        stopped=solved.found.stopped,
        demand_rps=described.throughput_rps,
        budget_usd_per_hour=budget,
        usd_per_hour=solved.usd_per_hour,
        bound_usd_per_hour=None,
        bound_rps=max(solved.bound, solved.scale) * solved.demand_rps,
        gap_share=solved.gap_share,
        mip_gap_share=_gap(options),
        usd_per_million_requests=_per_million(solved.usd_per_hour, described.throughput_rps),
        plan=described,
        curve=None,
    )


def _point(
    fleet: Fleet,
    options: SolverOptions,
    on_progress: Callable[[Progress], None],
    survive: tuple[FailureKind, ...] = (),
) -> SizePoint:
    from prfaas_opt.planning.fleets.network import network_of
    from prfaas_opt.planning.fleets.solve import least_cost
    from prfaas_opt.planning.fleets.survival import NoneSurvivesError

    try:
        solved = (
            _surviving(fleet, survive, options, on_progress).solved
            if survive
            else least_cost(network_of(fleet), options, _gap(options), on_progress)
        )
    except NoneSurvivesError:
        solved = None
    if solved is None:
        return SizePoint(fleet.demand_rps, "infeasible", "", None, None, None, None, {})
    usd, gpus = solved.usd_per_hour, solved.decision.gpus
    return SizePoint(
        demand_rps=fleet.demand_rps,
        status="optimal" if solved.gap_share <= _gap(options) else "feasible",
        stopped=solved.found.stopped,
        usd_per_hour=usd,
        bound_usd_per_hour=min(solved.bound, usd),
        gap_share=solved.gap_share,
        usd_per_million_requests=_per_million(usd, fleet.demand_rps),
        gpus={each.name: held for each, held in zip(solved.network.gpus, gpus, strict=True) if held},
    )


def _per_million(usd_per_hour: float, rate_rps: float) -> float | None:
    return usd_per_hour / (rate_rps * units.HOUR_S) * 1e6 if rate_rps > 0 else None
