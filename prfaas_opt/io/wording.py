"""How errors quote what they found and offer close spellings."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST = 60


def printable(text: str) -> str:
    r"""A text with escapes in place of line breaks, control characters and what no terminal can show.

    >>> printable("a\x1b[31m")
    'a\\x1b[31m'
    """
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def shown(value: Any) -> str:
    """A value as an error quotes it.

    >>> shown("4"), shown(4), shown(None), shown([1, 2]), shown({})
    ('"4"', '4', 'nothing', 'a list of 2', 'an empty mapping')
    """
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "nothing"
    if isinstance(value, str):
        if not value.strip():
            return "an empty text"
        text = printable(value)
        return f'"{text}"' if len(text) <= _LONGEST else f'"{text[:_LONGEST]}..."'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**18:
        return f"a whole number of {_digits(value)} digits"
    if isinstance(value, float) and abs(value) >= 1e12:
        return f"{value:.6g}"
    return str(value)


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "value"), counted(3, "value")
    ('1 value', '3 values')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A fix that offers close spellings, if there are any."""
    near = closest(word, known)
    return "did you mean " + " or ".join(near) + "?" if near else ""


def _digits(value: int) -> int:
    """The number of decimal digits, without writing them: Python refuses to write thousands."""
    value, digits = abs(value), 1
    while value >= 10:
        step = max(1, int((value.bit_length() - 1) * 0.30102999566))
        value, digits = value // 10**step, digits + step
    return digits


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """At most three of the known words that a word may be a misspelling of, nearest first.

    >>> closest("Internal1T", ["internal-1t", "kimi-linear"]), closest("kimi", ["internal-1t", "kimi-linear"])
    (['internal-1t'], ['kimi-linear'])
    """
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.casefold(), candidate)
    word = word.casefold()
    begins = [folded for folded in by_folded if word and folded.startswith(word)]
    near = difflib.get_close_matches(word, by_folded, n=3, cutoff=cutoff)
    return [by_folded[folded] for folded in dict.fromkeys([*near, *begins])][:3]


def suggestion(word: str, known: Iterable[str]) -> str:
    """A fix that offers close spellings, or else all that is known.

    >>> suggestion("H20O", ["H20", "H200"]), suggestion("TPU", ["H20", "H200"])
    ('did you mean H20 or H200?', 'use one of: H20, H200')
    """
    known = list(known)
    return did_you_mean(word, known) or ("use one of: " + ", ".join(known) if known else "")
