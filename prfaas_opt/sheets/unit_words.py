"""Units as headers and cells write them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from prfaas_opt import units
from prfaas_opt.sheets.book import cleaned

if TYPE_CHECKING:
    from collections.abc import Callable

    from prfaas_opt.sheets.catalogue import Column, Kind

PARSERS: dict[Kind, Callable[[str], float]] = {
    "bandwidth": units.parse_bandwidth,
    "duration": units.parse_duration,
    "size": units.parse_size,
    "tokens": units.parse_tokens,
}
"""What reads the texts of a kind of quantity, or says what is wrong with them."""
_TOKEN_UNITS = {
    "tokens": "",
    "token": "",
    "tok": "",
    "toks": "",
    "k tokens": "K",
    "k tok": "K",
    "ktokens": "K",
    "ki tokens": "K",
    "k": "K",
    "ki": "K",
    "m tokens": "M",
}
_USD = re.compile(r"(?:us)?\s*(?:\$|usd|dollars?)\s*(?:(?:/|per\b)\s*(?P<per>.+))?", re.IGNORECASE)
_PER = {
    "price_per_gpu_hour": {"gpuh", "h"},
    "price_per_gbps_hour": {"gbpsh"},
    "price_per_gb": {"gb"},
}
"""What prices may be per, by the last part of a path, in lower case and without what joins words."""
_OTHER_MONEY = re.compile(
    r"([\u20ac\u00a3\u00a5\u20b9\u20a9\u5143]|(au|ca|hk|nz|a|c|s)\$|(eur|gbp|jpy|cny|rmb|chf|inr|krw|cad|aud|sek|nok|dkk|pln)\b).*",
    re.IGNORECASE,
)
_RATE_WORDS = {
    "tokens/s": (
        "tokens/s",
        "tok/s",
        "token/s",
        "t/s",
        "tokens/sec",
        "tokens per second",
        "tps",
        "tok/s/user",
        "tokens/s/user",
    ),
    "req/s": ("req/s", "requests/s", "rps", "requests per second", "qps", "1/s"),
}


@cache
def unit_of(text: str, kind: Kind, column: Column | None = None) -> str | None:
    """A unit as the texts of a kind of quantity take it, or None where it is none of that kind.

    >>> unit_of("Gbps", "bandwidth"), unit_of("ms", "duration"), unit_of("ms", "size"), unit_of("K tokens", "tokens")
    ('Gbps', 'ms', None, 'K')
    """
    text = cleaned(text).strip("().[] ").removeprefix("in ")
    folded = text.casefold()
    if kind == "tokens":
        return _TOKEN_UNITS.get(folded)
    if kind in PARSERS:
        return _spelled(text, PARSERS[kind])
    if kind == "share":
        return {"%": "%", "percent": "%", "share": "", "0-1": "", "0..1": "", "fraction": ""}.get(folded)
    if kind == "usd":
        return "" if _is_usd(text, column) else None
    if kind == "count":
        counted = column.path.rpartition(".")[2] if column is not None else "gpus"
        return "" if folded in (counted, counted.removesuffix("s"), "count", "#", "number") else None
    if kind in ("number", "plain"):
        return "" if column is not None and folded in _RATE_WORDS.get(column.unit, ()) else None
    return None


def same_unit(kind: Kind, one: str, other: str) -> bool:
    """Whether two units, as ``unit_of`` gives them, are one spelled in two ways."""
    parse = PARSERS.get(kind)
    return one == other or (parse is not None and parse(f"1{one}") == parse(f"1{other}"))


def _is_usd(text: str, column: Column | None) -> bool:
    """Whether a text says US dollars, and per what the column's prices are; "/h" alone is per hour of what it is."""
    match = _USD.fullmatch(f"$ {text}" if text.startswith("/") or text.casefold().startswith("per ") else text)
    if not match or column is None:
        return bool(match)
    per = re.sub(r"[\W_]|\bper\b", "", re.sub(r"\b(hours?|hrs?)\b", "h", (match["per"] or "").casefold()))
    return not per or per in _PER.get(column.path.rpartition(".")[2], {per})


def _spelled(text: str, parse: Callable[[str], float]) -> str | None:
    """A unit as ``units`` spells it, where its case or spacing is what differs."""
    plural = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "milliseconds": "ms"}
    plural |= {"minutes": "min", "hours": "h", "bytes": "B", "\u00b5s": "us", "\u03bcs": "us"}
    a_second = re.sub(r"\s*(/|\bper\b)\s*sec(ond)?$", "/s", text, flags=re.IGNORECASE)
    for form in (text, text.replace(" ", ""), a_second, plural.get(text.casefold(), "")):
        try:
            if form:
                parse(f"1{form}")
                return form
        except units.UnitError:
            continue
    # GBps and Gbps differ by more than case; others do not.
    exact = {"gbps": "Gbps", "mbps": "Mbps", "tbps": "Tbps", "kbps": "kbps", "gbit/s": "Gbit/s", "mbit/s": "Mbit/s"}
    exact |= {
        "s": "s",
        "ms": "ms",
        "us": "us",
        "min": "min",
        "h": "h",
        "mib": "MiB",
        "gib": "GiB",
        "kib": "KiB",
        "tib": "TiB",
        "gib/s": "GiB/s",
    }
    form = exact.get(text.casefold(), "") if text not in ("GBps", "MBps", "TBps", "KBps", "kBps") else ""
    try:
        if form:
            parse(f"1{form}")
            return form
    except units.UnitError:
        pass
    return None


@cache
def looks_like_unit(text: str) -> bool:
    """Whether a text is a unit of anything."""
    kinds: tuple[Kind, ...] = ("bandwidth", "duration", "size", "tokens", "share", "usd")
    if any(unit_of(text, kind) is not None for kind in kinds) or _OTHER_MONEY.fullmatch(text):
        return True
    return text.casefold() in ("gpus", "instances") or any(text.casefold() in words for words in _RATE_WORDS.values())
