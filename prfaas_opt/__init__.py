"""Analytical throughput optimizer for cross-datacenter LLM serving.

>>> from prfaas_opt import load_scenario, plan
>>> plan(load_scenario(overrides={"links.0.bandwidth": "10Gbps"})).bottlenecks
('pd_prefill', 'egress')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prfaas_opt.api import compare, load_scenario, plan

__all__ = ["__version__", "compare", "load_scenario", "plan"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Loads the API at its first use, so that importing the package costs nothing."""
    if name in __all__:
        from prfaas_opt import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
