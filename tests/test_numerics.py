"""Root finding against closed forms and numpy's polynomial roots."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prfaas_opt.numerics import bracketed_root, evaluate_terms, sign_changes


@given(st.floats(0.1, 10.0), st.floats(0.2, 3.0))
def test_bracketed_root_of_a_power(value: float, exponent: float) -> None:
    low, high = bracketed_root(lambda x: x**exponent - value, 0.0, 1e6)
    assert low == pytest.approx(value ** (1 / exponent), rel=1e-13)
    assert abs(high - low) <= 16 * math.ulp(high)


@given(st.floats(0.01, 0.99))
def test_bracketed_root_locates_a_jump_and_keeps_its_sides_apart(jump: float) -> None:
    low, high = bracketed_root(lambda x: -1.0 if x < jump else 1.0, 0.0, 1.0)
    assert low < jump <= high
    assert high - low < 1e-14


def test_bracketed_root_keeps_sides_when_the_bracket_is_given_upside_down() -> None:
    positive, negative = bracketed_root(lambda x: 2.0 - x, 0.0, 10.0)
    assert positive == pytest.approx(2.0)
    assert negative == pytest.approx(2.0)
    assert 2.0 - positive >= 0 >= 2.0 - negative


def test_bracketed_root_without_a_sign_change_is_an_error() -> None:
    with pytest.raises(ValueError, match="no sign change"):
        bracketed_root(lambda x: x + 1.0, 0.0, 1.0)


@given(st.lists(st.floats(1.1, 99.0), min_size=1, max_size=4, unique_by=lambda x: round(x, 0)))
def test_sign_changes_finds_every_root_of_a_polynomial(roots: list[float]) -> None:
    coefficients = np.polynomial.polynomial.polyfromroots(roots)
    found = sign_changes([(float(c), float(e)) for e, c in enumerate(coefficients)], 1.0, 100.0)
    assert found == pytest.approx(sorted(roots), rel=1e-6)


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.sampled_from([0.0, 0.3, 0.68, 1.0, 1.4, 2.0])), min_size=1, max_size=6),
)
def test_sign_changes_misses_none_that_a_fine_grid_sees(terms: list[tuple[float, float]]) -> None:
    grid = np.geomspace(1.0, 1000.0, 2001)
    values = np.array([evaluate_terms(terms, float(x)) for x in grid])
    scale = max(abs(c) for c, _ in terms)
    clear = np.abs(values) > 1e-9 * scale * 1e6
    signs = np.sign(values[clear])
    seen = int(np.count_nonzero(signs[1:] != signs[:-1]))
    found = sign_changes(terms, 1.0, 1000.0)
    assert len(found) >= seen
    for low, high in itertools.pairwise(found):
        middle = evaluate_terms(terms, math.sqrt(low * high))
        after = evaluate_terms(terms, high * (1 + 1e-9))
        assert middle * after <= 0 or abs(middle) < 1e-9 * scale * 1e6
