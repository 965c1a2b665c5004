"""Products of matrices and cvxpy expressions, typed: numpy and scipy claim the result of ``matrix @ expression``.

What is constant is computed at once: cvxpy would take it for a part of the program, which costs a multiple of the sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from prfaas_opt.modelling import cp, multiply

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


def product(matrix: Any, expression: cp.Expression) -> cp.Expression:
    """``matrix @ expression``."""
    if isinstance(expression, cp.Constant):
        return cp.Constant(matrix @ expression.value)
    return cast("cp.Expression", matrix @ expression)


def times(factors: NDArray[np.float64], expression: cp.Expression) -> cp.Expression:
    """Each entry times its factor."""
    if isinstance(expression, cp.Constant):
        return cp.Constant(factors * expression.value)
    return cast("cp.Expression", multiply(factors, expression))


def picked(expression: cp.Expression, indices: Sequence[int]) -> cp.Expression:
    """The entries at some indices."""
    if isinstance(expression, cp.Constant):
        return cp.Constant(expression.value[list(indices)])
    if list(indices) == list(range(expression.size)):
        return expression
    return expression[list(indices)]


def total(terms: Sequence[cp.Expression]) -> cp.Expression:
    """The sum of some expressions, one at least."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result
