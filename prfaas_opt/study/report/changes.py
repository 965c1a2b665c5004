"""Where along an axis another stage limits the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prfaas_opt.study.report.answers import AxisChanges, Change

if TYPE_CHECKING:
    from prfaas_opt.study.report.frame import Levels
    from prfaas_opt.study.report.lines import Lines

MOST = 1_000
NOTHING = "nothing"


def changes_along(lines: Lines, bottlenecks: Levels) -> AxisChanges:
    """The changes of bottleneck between neighbours along an axis."""
    label = bottlenecks.codes[lines.rows]
    steps = lines.steps[label[lines.steps] != label[lines.steps + 1]]
    code = lines.axis.levels.codes[lines.rows]
    kinds = np.stack([code[steps], code[steps + 1], label[steps], label[steps + 1]], axis=1)
    distinct, first, group, counts = np.unique(
        kinds, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    wheres = lines.limits(group.reshape(-1).astype(np.int64), steps, len(distinct))
    found = [
        Change(
            before=bottlenecks.plain(int(before)) or NOTHING,
            after=bottlenecks.plain(int(after)) or NOTHING,
            low=lines.value(int(steps[at])),
            high=lines.value(int(steps[at]) + 1),
            lines=int(count),
            where=where,
        )
        for (_, _, before, after), at, count, where in zip(distinct, first, counts, wheres, strict=True)
    ]
    changed = len(np.unique(lines.line[steps]))
    return AxisChanges(
        axis=lines.axis.name,
        lines=lines.count,
        unchanged=lines.count - changed,
        count=len(found),
        changes=tuple(found[:MOST]),
    )
