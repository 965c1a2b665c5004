"""How hypothesis runs: the same examples every time and no limit on time, so that a red run is the change's.

``pytest --hypothesis-profile=explore`` draws others.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("explore", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True, database=None)
settings.load_profile("same")
