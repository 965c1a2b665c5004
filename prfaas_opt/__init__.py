"""Analytical throughput optimizer for cross-datacenter LLM serving.

>>> from prfaas_opt import load_scenario, plan
>>> plan(load_scenario(overrides={"links.0.bandwidth": "10Gbps"})).bottlenecks
('pd_prefill', 'egress')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prfaas_opt.version import __version__

if TYPE_CHECKING:
    from prfaas_opt.api import compare, load_scenario, plan
    from prfaas_opt.fleet_api import load_fleet, plan_fleet, size

__all__ = ["__version__", "compare", "load_fleet", "load_scenario", "plan", "plan_fleet", "size"]

_OF_FLEETS = {"load_fleet", "plan_fleet", "size"}


def __getattr__(name: str) -> Any:
    """Loads the API at its first use, so that importing the package costs nothing."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"prfaas_opt.{'fleet_api' if name in _OF_FLEETS else 'api'}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
