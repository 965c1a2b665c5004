"""Prompt lengths as options of commands and arguments of functions give them."""

from __future__ import annotations

from collections.abc import Sequence

from prfaas_opt import units
from prfaas_opt.errors import InputError, Problem

TABLE_LENGTHS_TOKENS = (1024, 8192, 32768, 131072)
"""The lengths of tables 3 and 5: 1K, 8K, 32K, 128K."""


def parse_lengths(lengths: Sequence[str | int], where: str = "--length") -> list[int]:
    """Lengths in tokens, from numbers or texts as "32K".

    Raises:
        InputError: those that are none, or are out of range; all of them.
    """
    parsed, problems = [], []
    for length in lengths:
        try:
            tokens = units.parse_tokens(length)
        except units.UnitError as error:
            problems.append(Problem("bad-unit", where, str(error), error.fix))
            continue
        if not 1 <= tokens <= units.LONGEST_TOKENS:
            expected = f"expected 1 to {units.format_tokens(units.LONGEST_TOKENS)} tokens"
            problems.append(Problem("out-of-range", where, f"found {length}, {expected}", "name another length"))
        parsed.append(tokens)
    if problems:
        raise InputError(problems)
    return parsed
