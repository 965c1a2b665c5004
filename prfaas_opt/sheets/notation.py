"""Numbers as texts write them: which mark stands before decimals, by evidence of the whole file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.wording import shown
from prfaas_opt.sheets.book import cleaned

Mark = Literal[".", ","]

NUMBER = re.compile(
    r"(?P<before>[^\d.,+\-]{0,4})(?P<sign>[+-]?)(?P<digits>\d[\d.,' \u2019]*\d|\d|[.,]\d+)(?P<power>[eE][+-]?\d{1,3})?"
    r"\s*(?P<unit>[^\d\s].*)?",
    re.DOTALL,
)
"""A number as people write it, with a sign of money before it or a unit after it."""

_ENOUGH = 3
"""Numbers that are no slip, if all are written in one way."""

_MINUS = str.maketrans("\u2212\u2012\u2013", "---")
_GROUPED = {mark: re.compile(rf"[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+") for mark in ".,"}
_SPACED = re.compile(r"\d{1,3}(?:[ '\u2019]\d{3})+(?=\D|$)")
_POINT_LANGUAGES = {"en", "zh", "ja", "ko", "th", "he", "hi", "ms", "bn", "ta", "ga", "mt"}
_COMMA_LANGUAGES = {"de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "sv", "da", "nb", "nn", "no", "fi", "cs"}
_COMMA_LANGUAGES |= {"sk", "sl", "hr", "hu", "ro", "bg", "el", "tr", "id", "vi", "et", "lv", "lt"}
_POINT_REGIONS = {"de_CH", "de_LI", "it_CH", "es_MX", "es_US", "es_PR", "es_GT", "es_PE"}


@dataclass
class Notation:
    """How a file writes numbers.

    Attributes:
        mark: before decimals; None: the file does not tell.
        why: it is so.
        seen: an example with its place, for each mark that some text uses.
    """

    mark: Mark | None = None
    why: str = ""
    seen: dict[Mark, tuple[str, str]] = field(default_factory=dict)


class AmbiguousError(Exception):
    """A text may be two numbers, or the file's other numbers say that it is none."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


def stated(locale: str) -> Notation:
    """The notation of a language, ``de`` or ``de_DE``, or of a sample, ``1.234,5``.

    Raises:
        InputError: nobody knows what it stands for.

    >>> stated("de").mark, stated("en_GB").mark, stated("1.234,5").mark
    (',', '.', ',')
    """
    text = cleaned(locale)
    why = f"--locale {text}"
    if re.fullmatch(r"\d[\d.,]*[.,]\d+|[.,]", text):
        marks = [ch for ch in text if ch in ".,"]
        repeated = marks[-1] in marks[:-1] and len(set(marks)) == 1
        if not repeated:
            return Notation("," if marks[-1] == "," else ".", why)
    language, _, region = text.replace("-", "_").partition(".")[0].partition("_")
    language = language.lower()
    if f"{language}_{region.upper()}" in _POINT_REGIONS or language in _POINT_LANGUAGES:
        return Notation(".", why)
    if language in _COMMA_LANGUAGES:
        return Notation(",", why)
    fix = "name a language, as en or de, or write a sample: --locale 1,234.5 or --locale 1.234,5"
    raise InputError(Problem("bad-locale", "--locale", f"found {shown(locale)}, expected a language or a sample", fix))


def readings(digits: str) -> dict[Mark, str]:
    """What digits with points and commas may mean, by the mark before decimals: plain digits with a point.

    >>> readings("1,250"), readings("12,5"), readings("1.234,5")
    ({'.': '1250', ',': '1.250'}, {',': '12.5'}, {',': '1234.5'})
    """
    found: dict[Mark, str] = {}
    marks: tuple[tuple[Mark, Mark], ...] = ((".", ","), (",", "."))
    for decimal, group in marks:
        whole, point, rest = digits.partition(decimal)
        if decimal in rest or group in rest:
            continue
        if group in whole:
            if not _GROUPED[group].fullmatch(whole):
                continue
            whole = whole.replace(group, "")
        if not (whole + rest).isdigit() or not (whole + rest).isascii():
            continue
        found[decimal] = f"{whole or '0'}.{rest}" if point else whole
    return found


def plain(digits: str) -> str:
    """Digits without spaces and apostrophes between groups of three; as they are where that is not what these do."""
    return re.sub(r"[ '\u2019]", "", digits) if _SPACED.match(digits) else digits


def parsed(text: str) -> re.Match[str] | None:
    """The parts of a cleaned text that is a number with signs and units, or None."""
    return NUMBER.fullmatch(text.translate(_MINUS))


def number(digits: str, notation: Notation, whole: bool) -> str:
    """The plain form of a number.

    Args:
        digits: as the text has them.
        notation: of the file.
        whole: whether only whole numbers make sense.

    Raises:
        AmbiguousError: the file does not tell which of two numbers it is.
    """
    digits = plain(digits)
    if "." not in digits and "," not in digits:
        if digits.isdigit() and digits.isascii():
            return digits
        raise ValueError(digits)
    found = readings(digits)
    if not found:
        raise ValueError(digits)
    if notation.mark is not None:
        if notation.mark in found:
            return found[notation.mark]
        other = next(iter(found.values()))
        raise AmbiguousError(
            f"is {other} only if {_named(next(iter(found)))}, but {_named(notation.mark)} ({notation.why})"
        )
    if len(found) == 1:
        mark, only = next(iter(found.items()))
        if mark == ".":
            return only
        raise AmbiguousError(f"may be {only}, or a slip: nothing else tells that a comma stands before decimals here")
    if whole:
        sure = [text for text in found.values() if "." not in text]
        fractions = [text for text in found.values() if "." in text]
        if len(sure) == 1 and float(fractions[0]) != int(float(fractions[0])):
            return sure[0]
    both = " or ".join(f"{float(text):.15g}" for text in found.values())
    raise AmbiguousError(f"may be {both}: {_reason(notation)}")


def _named(mark: Mark) -> str:
    return f"a {'comma' if mark == ',' else 'point'} stands before decimals"


def _reason(notation: Notation) -> str:
    if len(notation.seen) == 2:
        examples = " and ".join(f"{shown(text)} at {place}" for text, place in notation.seen.values())
        return f"the file has both {examples}"
    return "nothing else in the file tells which"


class Evidence:
    """Gathers what the texts of a file tell of its notation."""

    def __init__(self) -> None:
        self._by_mark: dict[Mark, list[tuple[str, str]]] = {".": [], ",": []}
        self._beside: dict[Mark, tuple[str, str]] = {}
        self._strong: set[Mark] = set()

    def add(self, text: str, place: str, whole: bool, beside: bool = False) -> None:
        """Notes what a cleaned text tells, if it is a number that tells anything.

        Args:
            text: of a cell.
            place: of the cell.
            whole: whether only whole numbers make sense there.
            beside: whether the cell is of no quantity: it may contradict others, but decides nothing.
        """
        match = parsed(text)
        if not match:
            return
        digits = plain(match["digits"])
        found = readings(digits)
        if len(found) == 1 and ("." in digits or "," in digits):
            mark = next(iter(found))
            grouped = ("." in digits and "," in digits) or digits.count(".") > 1 or digits.count(",") > 1
        elif len(found) == 2 and whole:
            fractions = [m for m, t in found.items() if "." in t and float(t) != int(float(t))]
            if len(fractions) != 1:
                return
            mark, grouped = "." if fractions[0] == "," else ",", True
        else:
            return
        if beside:
            self._beside.setdefault(mark, (text, place))
            return
        if grouped:
            self._strong.add(mark)
        if len(self._by_mark[mark]) < _ENOUGH:
            self._by_mark[mark].append((text, place))

    def notation(self, semicolons: bool) -> Notation:
        """What follows; ``semicolons`` between cells stand where commas are taken by numbers."""
        seen: dict[Mark, tuple[str, str]] = {mark: found[0] for mark, found in self._by_mark.items() if found}
        if len(seen) != 1:
            return Notation(None, seen=seen)
        mark = next(iter(seen))
        other: Mark = "." if mark == "," else ","
        if other in self._beside:
            return Notation(None, seen={**seen, other: self._beside[other]})
        text, place = seen[mark]
        why = f"{shown(text)} at {place}"
        # One "12,5" alone may be a slip; so may not be several, a form like "1.234,5", or semicolons beside it.
        if mark == "," and not (self._strong or semicolons or len(self._by_mark[","]) >= _ENOUGH):
            return Notation(None, seen=seen)
        return Notation(mark, why, seen)
