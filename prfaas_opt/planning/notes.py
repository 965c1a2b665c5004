"""What a reader of a scenario's results should know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.errors import InfeasibleError, InputError
from prfaas_opt.planning.build import curves_used, homogeneous_scenario, two_pool_problem
from prfaas_opt.planning.curves import service_curves, uses_cached_table
from prfaas_opt.terms import Transfer

if TYPE_CHECKING:
    from prfaas_opt.profiles.model import Profile
    from prfaas_opt.scenario import Cluster, Scenario
    from prfaas_opt.workload.workload import Workload


def assumptions(scenario: Scenario) -> tuple[str, ...]:
    """What a reader of this scenario's results should know: warnings of the model, lengths outside the data."""
    return (*scenario.model.warnings, *without_homogeneous(scenario), *about_figures(scenario))


def without_homogeneous(scenario: Scenario) -> tuple[str, ...]:
    """Why there is no homogeneous cluster to compare with; nothing where there is one."""
    try:
        two_pool_problem(homogeneous_scenario(scenario))
    except (InputError, InfeasibleError) as error:
        return (f"there is no homogeneous cluster to compare with: {error.problems[0].message}",)
    return ()


def about_figures(scenario: Scenario) -> tuple[str, ...]:
    """Formats that do not match, and lengths outside the data: the same whatever the counts, rates and prices."""
    notes: list[str] = []
    if not scenario.formats_match:
        formats = " and ".join(f"{c.name} {c.admission.kv_format}" for c in (scenario.remote, scenario.pd) if c)
        notes.append(f"nothing can be offloaded: the formats of KVCache do not match ({formats})")
    for cluster in (scenario.remote, scenario.pd):
        if cluster is not None:
            notes += _lengths_outside(scenario, cluster)
    return tuple(notes)


def _lengths_outside(scenario: Scenario, cluster: Cluster) -> list[str]:
    """Notes on the requests whose lengths lie outside the data of a cluster's profile."""
    lengths, notes = scenario.workload.input_tokens, []
    curves = [curve for _, curve in curves_used(scenario, cluster)]
    first = max(curve.measured_low_tokens for curve in curves)
    last = min(curve.measured_high_tokens for curve in curves)
    below, above = lengths.share_at_most(first) if lengths.low < first else 0.0, lengths.share_above(last)
    sends = cluster.role == "prefill"
    assumed = "the first latency and the first slope in size are" if sends else "the first latency is"
    if below > 0:
        notes.append(
            f"{units.format_some_share(below)} of requests are shorter than {units.format_tokens(first)} tokens, where "
            f"the {cluster.hardware} figures begin; {assumed} assumed there"
        )
    if above > 0:
        notes.append(
            f"{units.format_some_share(above)} of requests are longer than {units.format_tokens(last)} tokens, where "
            f"the {cluster.hardware} figures end; beyond, the profile's extrapolation is assumed"
        )
    return notes


def share_outside(workload: Workload, profile: Profile) -> float:
    """The share of requests whose lengths lie outside the data of a profile."""
    prefill_s = profile.prefill_s
    if uses_cached_table(profile, workload):
        prefill_s = service_curves(profile, workload, Transfer()).latency_s
    lengths, curves = workload.input_tokens, (prefill_s, profile.kv_bytes)
    first = max(curve.measured_low_tokens for curve in curves)
    last = min(curve.measured_high_tokens for curve in curves)
    return (lengths.share_at_most(first) if lengths.low < first else 0.0) + lengths.share_above(last)
