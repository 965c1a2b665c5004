"""Products of matrices and cvxpy expressions, typed: numpy and scipy claim the result of ``matrix @ expression``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from prfaas_opt.modelling import cp, multiply

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


def product(matrix: Any, expression: cp.Expression) -> cp.Expression:
    """``matrix @ expression``."""
    return cast("cp.Expression", matrix @ expression)


def times(factors: NDArray[np.float64], expression: cp.Expression) -> cp.Expression:
    """Each entry times its factor."""
    return cast("cp.Expression", multiply(factors, expression))


def total(terms: Sequence[cp.Expression]) -> cp.Expression:
    """The sum of some expressions, one at least."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result
