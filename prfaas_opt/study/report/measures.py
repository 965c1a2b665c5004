"""The figures that a report compares scenarios by."""

from __future__ import annotations

from collections.abc import Sequence

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import printable, suggestion
from prfaas_opt.study.report.answers import Measure

MEASURES: dict[str, Measure] = {
    each.name: each
    for each in (
        Measure("throughput", "served_rps", "req/s", "throughput", more_is_better=True),
        Measure("cost", "cost.usd_per_thousand_requests", "USD per 1,000 requests", "cost"),
        Measure("ttft", "ttft_s.p90", "s", "TTFT P90 (no queueing)"),
        Measure("egress", "egress_gbps", "Gbps", "egress"),
    )
}
"""Objectives by name, in the order in which they are compared by default."""

BREAK_EVEN = Measure("break_even", "cost.break_even_usd_per_gb", "USD per GB", "break-even price of a GB")

RATIO, COST_RATIO = "ratio", "cost.ratio"
"""Columns of what the plan serves over the homogeneous cluster, and of its requests per USD over that one's."""
OFFLOADED = "offload_share"
"""Column of the share of requests that are prefilled remotely."""


def objectives_named(names: Sequence[str]) -> tuple[Measure, ...]:
    """The objectives of these names.

    Raises:
        InputError: one is unknown, named twice, or there is none.
    """
    problems = []
    for number, name in enumerate(names):
        if name not in MEASURES:
            message = f'found "{printable(name)}", expected some of {", ".join(MEASURES)}'
            problems.append(Problem("unknown-name", "--pareto", message, suggestion(name, MEASURES)))
        elif name in names[:number]:
            problems.append(Problem("duplicate-key", "--pareto", f"found {name} twice", "name it once"))
    if not names:
        message = f"found no objective, expected some of {', '.join(MEASURES)}"
        problems.append(Problem("missing-key", "--pareto", message, "name one"))
    if problems:
        raise InputError(problems)
    return tuple(MEASURES[name] for name in names)
