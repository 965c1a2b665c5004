"""Headers of columns: which field one means, and in which unit bare numbers below it are."""

from __future__ import annotations

import difflib
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from prfaas_opt import units
from prfaas_opt.sheets.book import cleaned
from prfaas_opt.sheets.catalogue import (
    PD,
    PRICE_COLUMNS,
    PROFILE_COLUMNS,
    REMOTE,
    WORKLOAD_COLUMNS,
    Column,
    scenario_columns,
)

if TYPE_CHECKING:
    from prfaas_opt.sheets.catalogue import Kind

Topic = Literal["scenarios", "profiles", "workloads", "prices"]
TOPICS: tuple[Topic, ...] = ("profiles", "workloads", "prices", "scenarios")

_LONGEST = 80
"""Characters of a header."""
_LONG = 4
"""Words of a header, of which one may be wrong."""
_NUMBERING = {"#", "no", "nr", "id", "number"}
_PLAIN_UNITS = "in per gbps mbps tbps gbit mbit gb mb gib mib kb b bytes s ms us min h sec tokens token tok k ki req"

_WORD = re.compile(r"[^\W_]+|#")
_IN_BRACKETS = re.compile(r"(.*?)\s*[(\[{]\s*([^()\[\]{}]*)\s*[)\]}]\s*(.*)", re.DOTALL)
_AFTER_COMMA = re.compile(r"(.+?)\s*(?:,|;|:|/|\bin\b)\s*([^\s,;]+(?: tokens)?)", re.DOTALL | re.IGNORECASE)
_LAST_WORD = re.compile(r"(.+?)[\s_]+([^\s_]+)", re.DOTALL)
_INDEX = re.compile(r"\[(\d+)\]")
_PATH = re.compile(r"[a-z_]\w*(?:\.[\w\- ]+)+", re.IGNORECASE)
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
_USD = re.compile(r"(us)?\s*(\$|usd|dollars?)\s*((/|per)\s*(gpu|gbps|gb|gib|unit)?[\s\-]*(h|hr|hour)?)?", re.IGNORECASE)
_OTHER_MONEY = re.compile(r"(\u20ac|\u00a3|\u00a5|(eur|gbp|jpy|cny|rmb|chf)\b).*", re.IGNORECASE)
_RATE_WORDS = {
    "tokens/s": ("tokens/s", "tok/s", "token/s", "t/s", "tokens/sec", "tokens per second", "tps"),
    "req/s": ("req/s", "requests/s", "rps", "requests per second", "qps", "1/s"),
}


@dataclass(frozen=True)
class Meaning:
    """What a header means.

    Attributes:
        column: of the catalogue; None: it is no field.
        unit: that bare numbers are in, as the field's text takes it ("Gbps", "ms", "K", "%"); "" for none.
        stated: the unit as the header has it.
        near: headers that it may be a misspelling of.
        problem: why it cannot be taken, whatever column it is; "" where it can.
    """

    column: Column | None
    unit: str = ""
    stated: str = ""
    near: tuple[str, ...] = ()
    problem: str = ""


class _Lookup(Struct, frozen=True):
    """The columns of a topic by the words of their headers, and words that may be several of them."""

    by_key: dict[tuple[str, ...], Column]
    by_path: dict[str, Column]
    doubtful: dict[tuple[str, ...], tuple[str, ...]]
    names: dict[str, str]


def key(text: str) -> tuple[str, ...]:
    """The words of a header, whatever their order, case and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return tuple(sorted(_WORD.findall(folded)))


@cache
def lookup(topic: Topic) -> _Lookup:
    """How headers of a topic are found."""
    columns = {
        "scenarios": scenario_columns(),
        "profiles": PROFILE_COLUMNS,
        "workloads": WORKLOAD_COLUMNS,
        "prices": PRICE_COLUMNS,
    }[topic]
    by_key: dict[tuple[str, ...], Column] = {}
    names: dict[str, str] = {}
    for column in columns:
        for name in (column.name, *column.synonyms, column.path.replace(".", " ").replace("_", " ")):
            by_key.setdefault(key(name), column)
            names.setdefault(" ".join(key(name)), column.header)
            names.setdefault(name.casefold(), column.header)
    doubtful = _doubtful(columns, by_key) if topic == "scenarios" else {}
    return _Lookup(by_key, {column.path.casefold(): column for column in columns}, doubtful, names)


def _doubtful(
    columns: tuple[Column, ...], by_key: dict[tuple[str, ...], Column]
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Headers that name no cluster, or a role that the plan gives, with those that they may mean."""
    found: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        for cluster, label in ((REMOTE, "prefill"), (PD, "pd")):
            if not column.path.startswith(f"clusters.{cluster}."):
                continue
            for name in (column.name, *column.synonyms):
                words = key(name)
                if label in words:
                    rest = [word for word in words if word != label]
                    for other in ([], ["decode"], ["cluster"], ["decode", "cluster"]):
                        found.setdefault(tuple(sorted([*rest, *other])), []).append(column.header)
    gpus = {cluster: f"GPU ({label})" for cluster, label in ((REMOTE, "prefill"), (PD, "PD"))}
    roles = (("", (REMOTE, PD)), ("prefill", (REMOTE,)), ("remote", (REMOTE,)), ("decode", (PD,)))
    for role, clusters in roles:
        found[key(f"{role} cluster")] = [gpus[cluster] for cluster in clusters]
    found[key("PD cluster")] = [gpus[PD]]
    return {words: tuple(dict.fromkeys(headers)) for words, headers in found.items() if words and words not in by_key}


def meaning(text: str, topic: Topic, group: str = "") -> Meaning:
    """What a header means in a table of a topic.

    Args:
        text: of the header, cleaned.
        topic: of the table.
        group: a header that spans this column and others, above it.
    """
    found = _meaning(text, topic)
    if group and (found.column is None or found.near):
        together = _meaning(f"{group} {text}", topic)
        if together.column is not None:
            return together
    return found


@cache
def _vocabulary() -> frozenset[str]:
    """Every word that some header has."""
    words: set[str] = set(_PLAIN_UNITS.split())
    for topic in TOPICS:
        known = lookup(topic)
        for each in (*known.by_key, *known.doubtful):
            words |= set(each)
        for path in known.by_path:
            words |= set(_WORD.findall(path))
    return frozenset(words)


def topics(text: str) -> frozenset[Topic]:
    """The topics in whose tables a text would be a header that is known, or nearly."""
    if text[:1].isdigit():
        return frozenset()
    if "." in text and path_meaning(text) is not None:
        return frozenset({"scenarios"})
    first, _, rest = text.partition(" ")
    if rest and first.isalnum() and first.casefold() not in _vocabulary():
        return frozenset()
    last = rest.rpartition(" ")[2]
    if last.isalnum() and last.casefold() not in _vocabulary():
        return frozenset()
    return _topics(text)


@cache
def _topics(text: str) -> frozenset[Topic]:
    name = re.split(r"[(\[{]", text, maxsplit=1)[0]
    if len(text) > _LONGEST or not _vocabulary().issuperset(_WORD.findall(name.casefold())):
        return frozenset()
    found: set[Topic] = set()
    for topic in TOPICS:
        means = _meaning(text, topic)
        if means.column is not None or (topic == "scenarios" and lookup(topic).doubtful.get(key(text))):
            found.add(topic)
    return frozenset(found)


@cache
def _meaning(text: str, topic: Topic) -> Meaning:
    known = lookup(topic)
    path = known.by_path.get(_INDEX.sub(r".\1", text).casefold())
    if path is not None:
        return Meaning(path)
    whole = known.by_key.get(key(text))
    if whole is not None and not _IN_BRACKETS.fullmatch(text):
        return Meaning(whole)
    for name, unit, bracketed in _with_unit(text):
        column = known.by_path.get(_INDEX.sub(r".\1", name).casefold()) or known.by_key.get(key(name))
        if column is None:
            continue
        if not unit:
            return Meaning(column)
        taken = unit_of(unit, column.kind, column)
        if taken is not None:
            return Meaning(column, taken, unit)
        if looks_like_unit(unit) or (whole is None and bracketed):
            expected = f', expected one such as "{column.unit}"' if column.unit else ", expected none"
            return Meaning(column, "", unit, problem=f'has the unit "{unit}"{expected}')
    if whole is not None:
        return Meaning(whole)
    return Meaning(None, near=_near(text, known))


def _with_unit(text: str) -> list[tuple[str, str, bool]]:
    """How a header may be a name and a unit, and whether the unit stands in brackets."""
    found = []
    match = _IN_BRACKETS.fullmatch(text)
    if match:
        found.append((f"{match[1]} {match[3]}".strip(), match[2].strip(), True))
    for pattern in (_AFTER_COMMA, _LAST_WORD):
        match = pattern.fullmatch(text)
        if match:
            found.append((match[1], match[2], False))
    return found


def _near(text: str, known: _Lookup) -> tuple[str, ...]:
    """Headers that a header may be meant as."""
    forms = [text, *(name for name, unit, _ in _with_unit(text) if looks_like_unit(unit))]
    for form in forms:
        words = key(form)
        if known.doubtful.get(words):
            return known.doubtful[words]
        found: list[str] = []
        for candidate in {form.casefold(), " ".join(words)}:
            close = difflib.get_close_matches(candidate, known.names, n=3, cutoff=0.75)
            for name in close:
                ratio = difflib.SequenceMatcher(None, candidate, name).ratio()
                if ratio >= 0.87 or sorted(candidate) == sorted(name):
                    found.append(known.names[name])
        found += [_first_of(known, each) for each in known.by_key if _one_word_apart(words, each)]
        if found and not (set(words) & _NUMBERING and set(found) == {"Name"}):
            return tuple(dict.fromkeys(found))
    words = key(text)
    counts = "count" in words and any(ch.isdigit() for ch in text)
    if known.doubtful and (counts or {"instances", "gpus"} & set(words)):
        return tuple(column.header for column in scenario_columns() if column.path.endswith((".instances", ".gpus")))
    return ()


def _one_word_apart(words: tuple[str, ...], known: tuple[str, ...]) -> bool:
    """Whether two long headers differ in one word: "price per GPU month"."""
    return len(words) == len(known) >= _LONG and len(set(words) - set(known)) == 1 == len(set(known) - set(words))


def _first_of(known: _Lookup, words: tuple[str, ...]) -> str:
    return known.by_key[words].header


@cache
def unit_of(text: str, kind: Kind, column: Column | None = None) -> str | None:
    """A unit as the texts of a kind of quantity take it, or None where it is none of that kind.

    >>> unit_of("Gbps", "bandwidth"), unit_of("ms", "duration"), unit_of("ms", "size"), unit_of("K tokens", "tokens")
    ('Gbps', 'ms', None, 'K')
    """
    text = cleaned(text).strip("().[] ")
    folded = text.casefold()
    parsers = {"bandwidth": units.parse_bandwidth, "duration": units.parse_duration, "size": units.parse_size}
    if kind in parsers:
        return _spelled(text, parsers[kind])
    if kind == "tokens":
        return _TOKEN_UNITS.get(folded)
    if kind == "share":
        return {"%": "%", "percent": "%", "share": "", "0-1": "", "0..1": "", "fraction": ""}.get(folded)
    if kind == "usd":
        return "" if _USD.fullmatch(text) else None
    if kind == "count":
        counted = column.path.rpartition(".")[2] if column is not None else "gpus"
        return "" if folded in (counted, counted.removesuffix("s"), "count", "#", "number") else None
    if kind in ("number", "plain"):
        return "" if column is not None and folded in _RATE_WORDS.get(column.unit, ()) else None
    return None


def _spelled(text: str, parse: object) -> str | None:
    """A unit as ``units`` spells it, where its case or spacing is what differs."""
    assert callable(parse)
    plural = {"sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "milliseconds": "ms"}
    plural |= {"minutes": "min", "hours": "h", "bytes": "B", "gbit/sec": "Gbit/s", "\u00b5s": "us", "\u03bcs": "us"}
    for form in (text, text.replace(" ", ""), plural.get(text.casefold(), "")):
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


def with_unit_below(means: Meaning, below: str) -> Meaning:
    """A header's meaning with the unit that the cell below it states, if it states none itself."""
    if means.column is None or means.stated or not below:
        return means
    unit = below.strip("()[] ")
    taken = unit_of(unit, means.column.kind, means.column)
    if taken is not None:
        return Meaning(means.column, taken, unit)
    expected = f', expected one such as "{means.column.unit}"' if means.column.unit else ", expected none"
    return Meaning(means.column, "", unit, problem=f'has the unit "{unit}" below it{expected}')


@cache
def path_meaning(text: str) -> Meaning | None:
    """What a header means that is the path of a field without column; None where it is no path."""
    match = _IN_BRACKETS.fullmatch(text) if not _INDEX.search(text) else None
    path = _INDEX.sub(r".\1", (match[1] if match else text).strip())
    key_, _, rest = path.partition(".")
    if not rest or not _PATH.fullmatch(path) or key_.casefold() not in _scenario_keys():
        return None
    column = Column(f"{key_.casefold()}.{rest}", path, "plain", doc="a field by its path")
    problem = f'has the unit "{match[2]}", expected none: put it in the cells' if match else ""
    return Meaning(column, problem=problem)


@cache
def _scenario_keys() -> frozenset[str]:
    return frozenset(path.partition(".")[0] for path in lookup("scenarios").by_path) | {"traffic"}
