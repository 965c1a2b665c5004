"""Whether a study's rows can be two pools at all: those of a fleet are refused before they are planned."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError
from prfaas_opt.io.overrides import steps_of
from prfaas_opt.study.scenarios import ScenarioMaker

if TYPE_CHECKING:
    from prfaas_opt.study.rows import Rows

_FIX = (
    "no field of the study changes that: name a base of two pools; prfaas-opt plan and prfaas-opt size take a fleet, "
    "one at a time"
)


def refuse_a_fleet(rows: Rows) -> None:
    """Raises that the base is a fleet, where every row would be one too.

    Args:
        rows: of the study.

    Raises:
        InputError: what makes it a fleet, and where.
    """
    if not len(rows) or not _stays_a_fleet(rows.base.data, [steps_of(each) for each in rows.fields]):
        return
    maker = ScenarioMaker(rows.base, rows.fields)
    try:
        maker.read(rows.values(0, 1)[0], rows.where, 0)
    except InputError as error:
        if [each.code for each in error.problems] == ["not-two-pools"]:
            raise InputError([dataclasses.replace(each, fix=_FIX) for each in error.problems]) from None


def _stays_a_fleet(base: Any, fields: Sequence[Sequence[str]]) -> bool:
    """Whether no field can turn a base into two pools, if it is a fleet."""
    if not isinstance(base, dict):
        return False
    traffic, clusters = base.get("traffic"), base.get("clusters")
    if isinstance(traffic, list) and len(traffic) > 1 and ["traffic"] not in fields:
        return True
    each = clusters.values() if isinstance(clusters, dict) else ()
    roles = Counter(str(cluster.get("role")) for cluster in each if isinstance(cluster, dict))
    of_clusters = [steps for steps in fields if steps[0] == "clusters"]
    gives_roles = any(len(steps) <= 2 or steps[-1] == "role" for steps in of_clusters)
    if max(roles.values(), default=0) > 1 and not gives_roles:
        return True
    # What else makes a fleet stands in these: ranges, kinds of hardware, GPUs that are no whole number of instances.
    return not any(steps[0] in ("clusters", "links", "model", "traffic") for steps in fields)
