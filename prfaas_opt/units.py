"""Every conversion between what people write and SI units. Nothing else in the package knows a factor.

Token lengths use K = 1024, as model cards do; rates use decimal bits; sizes may be decimal (GB) or
binary (GiB).
"""

from __future__ import annotations

import math
import re

_NUMBER = r"([+-]?(?=\.?\d)(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:e[+-]?\d+)?)"
_QUANTITY = re.compile(rf"\s*{_NUMBER}\s*([a-z%/]*)\s*", re.ASCII | re.IGNORECASE)

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_BYTES = {f"{prefix}B": factor for prefix, factor in (_DECIMAL | _BINARY).items()}
_RATES = {f"{unit}/s": factor for unit, factor in _BYTES.items()}
_RATES |= {
    f"{prefix}{per_second}": factor / 8
    for prefix, factor in (_DECIMAL | {"m": 1e6, "g": 1e9, "t": 1e12}).items()
    for per_second in ("bps", "bit/s", "Bit/s")
}
_RATES |= {f"{prefix}b/s": factor / 8 for prefix, factor in _DECIMAL.items()}
_LIKE_A_RATE = re.compile(r"([kmgt]?)i?(?:b|bits?|bytes?|be)?(ps|/s|/sec|p/s)?", re.IGNORECASE)
_DURATIONS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}
_TOKENS = {"": 1, "k": 2**10, "ki": 2**10, "m": 2**20, "mi": 2**20}

GB = 1e9
"""Bytes."""
GBPS = 1e9 / 8
"""Bytes/s of one Gbps."""
HOUR_S = 3600.0
"""Seconds of an hour."""
LONGEST_TOKENS = 2**24
"""The longest length taken: beyond any model's context."""


class UnitError(ValueError):
    """A text is no quantity of the kind asked for; ``fix`` says what would be."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def _quoted(value: str | float) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value}"


def _split(value: str | float, example: str) -> tuple[float, str]:
    """The number and the unit of a text; a plain number has the unit ""."""
    number, unit = value, ""
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value)
        if not match or not any(ch.isdigit() for ch in match[1]):
            raise UnitError(f'"{value}" is not a number with a unit', f"write it as {example}")
        number, unit = match[1].replace(",", ""), match[2]
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UnitError(f"{_quoted(value)} is not a finite number", f"write it as {example}")
    return number, unit


def unit_of(value: str | float) -> str:
    """The unit of a quantity as it is written; "" where it has none.

    >>> unit_of("100 Gbps"), unit_of("32K"), unit_of(0)
    ('Gbps', 'K', '')
    """
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return match[2] if match else ""


def parse_tokens(value: str | float) -> int:
    """A whole number of tokens: 32768, "32K", "32Ki", "1M", "19,620".

    Raises:
        UnitError: not a length, or a suffix that gives a fraction of a token.

    >>> parse_tokens("32K"), parse_tokens("1Mi"), parse_tokens("19,620")
    (32768, 1048576, 19620)
    """
    example = '"32K" (K = 1024) or 32768'
    number, suffix = _split(value, example)
    factor = _TOKENS.get(suffix.casefold())
    if factor is None:
        raise UnitError(f"{_quoted(value)} is not a length in tokens", f"write it as {example}")
    tokens = number * factor
    if not math.isfinite(tokens):
        raise UnitError(f"{_quoted(value)} is not a finite number", f"write it as {example}")
    if tokens == int(tokens):
        return int(tokens)
    if tokens < 0:
        raise UnitError(f"{_quoted(value)} is not a length in tokens", f"write it as {example}")
    if factor == 1:
        raise UnitError(f"{_quoted(value)} is not a whole number of tokens", _whole_tokens(value, tokens))
    decimal = number * {2**10: 10**3, 2**20: 10**6}[factor]
    near = sorted({max(1, round(decimal)), max(1, round(tokens))})
    message = f"{_quoted(value)} is {tokens:,.9g} tokens, not a whole number"
    raise UnitError(message, "write " + " or ".join(map(str, near)))


def _whole_tokens(value: str | float, tokens: float) -> str:
    """The whole numbers that a fraction may stand for; "32.768" may be meant as 32,768."""
    near = [n for n in (math.floor(tokens), math.ceil(tokens)) if n > 0]
    text = f"{value}".strip()
    grouped = [int(text.replace(".", ""))] if re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", text) else []
    return "write " + " or ".join(str(n) for n in [*grouped, *near])


def parse_bandwidth(value: str | float) -> float:
    """Bytes/s from "100Gbps", "100 Gbit/s" or "12.5 GB/s"; only 0 needs no unit.

    Raises:
        UnitError: no rate, a number without a unit, or a unit that may mean bits or bytes.

    >>> parse_bandwidth("100Gbps"), parse_bandwidth("1 GiB/s"), parse_bandwidth(0)
    (12500000000.0, 1073741824.0, 0.0)
    """
    example = '"100Gbps" or "12.5GB/s"'
    number, unit = _split(value, example)
    if unit in _RATES:
        rate = number * _RATES[unit]
        if not math.isfinite(rate):
            raise UnitError(f"{_quoted(value)} is not a finite rate", f"write it as {example}")
        return rate
    if number == 0 and not unit:
        return 0.0
    if not unit:
        fix = f'write "{number:g}Gbps" if gigabits per second are meant'
        raise UnitError(f"{_quoted(value)} has no unit", fix if number > 0 else f"write it as {example}")
    like = _LIKE_A_RATE.fullmatch(unit)
    if not like:
        raise UnitError(f"{_quoted(value)} is not a bandwidth", f"write it as {example}")
    prefix = like[1].upper().replace("K", "k")
    in_bytes = unit if unit in _BYTES else f"{prefix}B"
    what = "is a size, not a rate" if unit in _BYTES else "may mean bits or bytes" if like[2] else "is no rate"
    fix = f'write "{number:g}{prefix}bps" for bits, or "{number:g}{in_bytes}/s" for bytes'
    raise UnitError(f"{_quoted(value)} {what}", fix)


def _parse_unit(value: str | float, factors: dict[str, float], what: str, example: str) -> float:
    number, unit = _split(value, example)
    if unit in factors:
        return number * factors[unit]
    if number == 0 and not unit:
        return 0.0
    near = [known for known in factors if known.casefold() == unit.casefold()]
    fix = f'write "{number:g}{near[0]}"' if near else f"write it as {example}"
    raise UnitError(f"{_quoted(value)} {'is no ' + what if unit else 'has no unit'}", fix)


def parse_duration(value: str | float) -> float:
    """Seconds from "7s", "80 ms" or "250us"; only 0 needs no unit.

    Raises:
        UnitError: no duration, or a number without a unit.

    >>> parse_duration("7s"), parse_duration("80 ms"), parse_duration(0)
    (7.0, 0.08, 0.0)
    """
    return _parse_unit(value, _DURATIONS, "duration", '"7s" or "80ms"')


def parse_size(value: str | float) -> float:
    """Bytes from "16MiB" or "4 MB"; only 0 needs no unit.

    Raises:
        UnitError: no size, or a number without a unit.

    >>> parse_size("16MiB"), parse_size("4 MB")
    (16777216.0, 4000000.0)
    """
    return _parse_unit(value, _BYTES, "size", '"16MiB" or "4MB"')


SIZE_SUFFIXES = {"bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "mb": 1e6, "gb": 1e9}
"""Bytes of one unit of a field named by its unit (``mib: [190.8, ...]``)."""
TIME_SUFFIXES = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
"""Seconds of one unit of a field that ends in ``_s``, ``_ms`` or ``_us``."""


def to_gbps(bytes_per_s: float) -> float:
    """Gbps (1e9 bit/s) from bytes/s."""
    return bytes_per_s / GBPS


def to_tbps(gbps: float) -> float:
    """Tbps from Gbps."""
    return gbps / 1000


def to_k_tokens(tokens: float) -> float:
    """Tokens in K = 1024, as tables label lengths."""
    return tokens / _TOKENS["k"]


def to_thousand_tokens(tokens: float) -> float:
    """Tokens in thousands, as prose counts them."""
    return tokens / 1000


def to_mib(size_bytes: float) -> float:
    """MiB from bytes."""
    return size_bytes / SIZE_SUFFIXES["mib"]


def format_tokens(tokens: float) -> str:
    """A length for people: whole tokens, grouped.

    >>> format_tokens(19805)
    '19,805'
    """
    return f"{tokens:,.0f}"


def format_length(tokens: int) -> str:
    """A length as people name it: 32K where it is a multiple of 1024.

    >>> format_length(32768), format_length(19805)
    ('32K', '19,805')
    """
    return f"{tokens // 1024}K" if tokens and tokens % 1024 == 0 else format_tokens(tokens)


def round_tokens(tokens: int, low: float, high: float) -> str:
    """A length in K = 1024 where that is between two others, else to the token.

    >>> round_tokens(19805, 19334, 19951), round_tokens(19805, 19700, 19951)
    ('19K', '19,805')
    """
    in_k = round(tokens / 1024)
    return f"{in_k}K" if in_k and low <= in_k * 1024 <= high else format_tokens(tokens)


def format_gbps(gbps: float) -> str:
    """A rate for people, in Gbps or, from 1,000 Gbps, Tbps.

    >>> format_gbps(11.99), format_gbps(9.9999), format_gbps(1), format_gbps(3835.2)
    ('12.0 Gbps', '10.0 Gbps', '1.00 Gbps', '3.84 Tbps')
    """
    if gbps >= 1000:
        return f"{to_tbps(gbps):.2f} Tbps"
    if round(gbps, 2) >= 10:
        return f"{gbps:.1f} Gbps"
    return f"{gbps:.2f} Gbps" if gbps >= 1 or gbps == 0 else f"{gbps:.3g} Gbps"


def format_rps(rps: float) -> str:
    """A request rate for people, to three digits.

    >>> format_rps(3.1494), format_rps(1.7), format_rps(1234.5), format_rps(0.0038)
    ('3.15 req/s', '1.70 req/s', '1,234 req/s', '0.0038 req/s')
    """
    if 0 < rps < 0.01:
        return f"{rps:.3g} req/s"
    return f"{rps:,.0f} req/s" if rps >= 1000 else f"{rps:#.3g}".rstrip(".") + " req/s"


def format_share(share: float, signed: bool = False) -> str:
    """A share as a percentage.

    >>> format_share(0.4866), format_share(0.012, signed=True)
    ('48.7 %', '+1.2 %')
    """
    return f"{share:{'+z' if signed else 'z'}.1%}".replace("%", " %")


def format_some_share(share: float, less_than: str = "less than ") -> str:
    """A share that is not zero, never as 0.0 %.

    >>> format_some_share(0.25), format_some_share(1e-5)
    ('25.0 %', 'less than 0.1 %')
    """
    return format_share(share) if share >= 0.0005 else f"{less_than}0.1 %"


def format_size(size_bytes: float) -> str:
    """A size for people, in binary units.

    >>> format_size(16777216), format_size(4000), format_size(1177.24e9)
    ('16 MiB', '3.91 KiB', '1.07 TiB')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes >= _BYTES[unit]:
            return f"{size_bytes / _BYTES[unit]:.3g} {unit}"
    return f"{size_bytes:.3g} B"


def format_gb(size_bytes: float) -> str:
    """A size for people, in GB as data sheets have it.

    >>> format_gb(141e9), format_gb(2.5e9)
    ('141 GB', '2.5 GB')
    """
    gigabytes = size_bytes / GB
    return f"{gigabytes:,.0f} GB" if gigabytes >= 100 else f"{gigabytes:.3g} GB"


def format_ms(seconds: float) -> str:
    """A short time for people.

    >>> format_ms(0.025)
    '25 ms'
    """
    return f"{seconds * 1000:.3g} ms"
