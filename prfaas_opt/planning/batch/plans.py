"""From arrays of figures to plans: each row is described as a plan of its own is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prfaas_opt import results
from prfaas_opt.planning.build import carried_by_link, homogeneous_scenario
from prfaas_opt.planning.certificate import Prices
from prfaas_opt.planning.describe import Evaluated, cost_of, plan_of
from prfaas_opt.planning.evaluate import ClassMeans, Rates
from prfaas_opt.planning.plan import Yardstick, with_ratios
from prfaas_opt.planning.problem import Decision
from prfaas_opt.planning.split import Solution

if TYPE_CHECKING:
    from prfaas_opt.planning.batch.decisions import Found
    from prfaas_opt.planning.batch.figures import Figures
    from prfaas_opt.planning.batch.group import Group
    from prfaas_opt.planning.batch.thresholds import Capacities
    from prfaas_opt.planning.decoding import Decoding
    from prfaas_opt.scenario import Scenario


def plans(
    group: Group,
    scenarios: Sequence[Scenario],
    decoded: Sequence[Decoding],
    given: Capacities,
    found: Found,
    figures: Figures,
) -> Iterator[results.Plan]:
    """The plans of scenarios, given their decisions and the figures of these."""
    rows = zip(
        scenarios,
        decoded,
        given.problems(group.tables.problem),
        _solutions(found, figures),
        _rates(figures),
        strict=True,
    )
    for number, (scenario, decoding, problem, solution, rates) in enumerate(rows):
        carried = carried_by_link(scenario)
        evaluated = Evaluated(
            rates=rates,
            mean_length_rps=float(figures.mean_length_rps[number]),
            expected_time_rps=rates.throughput_rps,
            ttft_s=results.Ttft(float(figures.ttft_mean_s[number]), float(figures.ttft_p90_s[number])),
            routing=_routing(group, int(figures.threshold_tokens[number]), rates.means.offload_share),
            sent_bytes=rates.means.offload_share * (rates.means.sent_bytes or 0.0),
            carried=carried,
            decode=results.DecodePoint(
                decoding.batch, decoding.step_s, decoding.context_tokens, decoding.limited_by, None
            ),
            terms=group.terms(scenario),
            stay_share=group.admitted.share_without_choice,
            unservable_share=group.admitted.unservable_share,
            provenance=group.provenance,
        )
        plan = plan_of(scenario, problem, solution, "prfaas-pd", evaluated)
        served = float(figures.homogeneous_rps[number]), float(figures.naive_rps[number])
        yield with_ratios(plan, _yardsticks(group, scenario, *served))


def _solutions(found: Found, figures: Figures) -> Iterator[Solution]:
    columns = (
        figures.threshold_tokens,
        found.split,
        figures.rates.throughput_rps,
        *figures.near_tokens,
        found.bound_rps,
        found.shared_rps,
        found.remote_price,
        found.local_price,
        found.decode_price,
        found.link_price,
    )
    for threshold, split, rate, nearest, farthest, bound, shared, remote, local, decode, link in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        prices = Prices(bound, remote, local, decode, link)
        yield Solution(Decision(((threshold, math.inf),), split, rate), (nearest, farthest), bound, shared, prices)


def _rates(figures: Figures) -> Iterator[Rates]:
    for share, remote_s, sent, local_s, prfaas, prefill, decode, rate in zip(
        *(column.tolist() for column in figures.rates), strict=True
    ):
        means = ClassMeans(share, _or_none(remote_s), _or_none(sent), _or_none(local_s))
        egress = rate * share * (means.sent_bytes or 0.0)
        yield Rates(means, _or_none(prfaas), _or_none(prefill), decode, rate, egress)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _routing(group: Group, threshold: int, offload_share: float) -> results.Routing:
    first, last = group.shortest, group.tables.problem.served.last_threshold
    if offload_share >= 1:
        return results.Routing("all-remote", (results.Band(max(threshold + 1, first), last, "prfaas"),))
    if offload_share <= 0:
        return results.Routing("all-local", (results.Band(first, last, "pd_prefill"),))
    kept = results.Band(max(1, first), min(threshold, last), "pd_prefill")
    return results.Routing("threshold", (kept, results.Band(max(threshold + 1, first), last, "prfaas")))


def _yardsticks(group: Group, scenario: Scenario, homogeneous_rps: float, naive_rps: float) -> list[Yardstick]:
    has_prices = scenario.pd.price_per_gpu_hour is not None
    yardsticks = []
    if not math.isnan(homogeneous_rps):
        cost = cost_of(homogeneous_scenario(scenario), 0.0, homogeneous_rps) if has_prices else None
        yardsticks.append(Yardstick("homogeneous-pd", homogeneous_rps, cost.requests_per_usd if cost else None))
    cost = cost_of(scenario, group.tables.sent_total_bytes, naive_rps) if has_prices else None
    yardsticks.append(Yardstick("naive-heterogeneous", naive_rps, cost.requests_per_usd if cost else None))
    return yardsticks
