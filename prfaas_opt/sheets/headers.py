"""Headers of columns: which field one means, and in which unit bare numbers below it are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from prfaas_opt.sheets.catalogue import Column
from prfaas_opt.sheets.header_words import TOPICS, WORD, Topic, key, lookup
from prfaas_opt.sheets.nearly import near
from prfaas_opt.sheets.unit_words import looks_like_unit, unit_of

_LONGEST = 80
"""Characters of a header."""
_PLAIN_UNITS = "in per gbps mbps tbps gbit mbit gb mb gib mib kb b bytes s ms us min h hr sec usd"
_PLAIN_UNITS += " tokens token tok k ki req"

_IN_BRACKETS = re.compile(r"(.*?)\s*[(\[{]\s*([^()\[\]{}]*)\s*[)\]}]\s*(.*)", re.DOTALL)
_AFTER_COMMA = re.compile(r"(.+?)\s*(?:,|;|:|/|\bin\b)\s*([^\s,;]+(?: tokens|\s+per\s.+)?)", re.DOTALL | re.IGNORECASE)
_AN_HOUR = re.compile(r"\W*(usd?)?\s*\W*\s*(/|per)\s*h(ou)?r?s?", re.IGNORECASE)
"""A price an hour of it is not said what."""
_LAST_WORD = re.compile(r"(.+?)[\s_]+([^\s_]+)", re.DOTALL)
_WITH_SIGN = re.compile(
    r"(.*?)[\s,;:]*((?:\b(?:US|AU|CA|HK|NZ|A|C|S))?[%$\u20ac\u00a3\u00a5\u20b9][^\s()\[\]]*(?:\s+per\s[^()]+)?)\s*(.*)",
    re.DOTALL | re.IGNORECASE,
)
_MEAN = re.compile(r"\b(avg\.?|average|mean|typical)\s*", re.IGNORECASE)
_INDEX = re.compile(r"\[(\d+)\]")
_PATH = re.compile(r"[a-z_]\w*(?:\.[\w\- ]+)+", re.IGNORECASE)


@dataclass(frozen=True)
class Meaning:
    """What a header means.

    Attributes:
        column: of the catalogue; None: it is no field.
        unit: that bare numbers are in, as the field's text takes it ("Gbps", "ms", "K", "%"); "" for none.
        stated: the unit as the header has it.
        near: headers that it may be a misspelling of.
        hint: what else tells which of them is meant.
        problem: why it cannot be taken, whatever column it is; "" where it can.
    """

    column: Column | None
    unit: str = ""
    stated: str = ""
    near: tuple[str, ...] = ()
    hint: str = ""
    problem: str = ""


def meaning(text: str, topic: Topic, group: str = "") -> Meaning:
    """What a header means in a table of a topic.

    Args:
        text: of the header, cleaned.
        topic: of the table.
        group: a header that spans this column and others, above it.
    """
    found = _meaning(text, topic)
    if group and found.column is None:
        together = _meaning(f"{group} {text}", topic)
        if together.column is not None:
            return together
    return found


def offered(text: str, topic: Topic, group: str = "") -> Meaning:
    """What a header means, as ``meaning`` has it; where it is no column, those that it may be meant as."""
    found = meaning(text, topic, group)
    if found.column is not None:
        return found
    together = _offer(f"{group} {text}", topic) if group else found
    return together if together.near else _offer(text, topic)


@cache
def _offer(text: str, topic: Topic) -> Meaning:
    headers, hint = near(text, _without_unit(text), lookup(topic))
    return Meaning(None, near=headers, hint=hint)


@cache
def is_doubtful(text: str, group: str = "") -> bool:
    """Whether a header is one of scenarios of which a word more must be said."""
    forms = [text, *_without_unit(text), *([f"{group} {text}"] if group else [])]
    return any(lookup("scenarios").doubtful.get(key(form)) for form in forms)


def _without_unit(text: str) -> list[str]:
    return [name for name, unit, _ in _with_unit(text) if looks_like_unit(unit)]


@cache
def _vocabulary() -> frozenset[str]:
    """Every word that some header has."""
    words: set[str] = set(_PLAIN_UNITS.split())
    for topic in TOPICS:
        known = lookup(topic)
        for each in (*known.by_key, *known.doubtful):
            words |= set(each)
        for path in known.by_path:
            words |= set(WORD.findall(path))
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
    if len(text) > _LONGEST or not _vocabulary().issuperset(WORD.findall(name.casefold())):
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
    whole = known.named(text)
    if whole is not None and not _IN_BRACKETS.fullmatch(text):
        return Meaning(whole)
    for name, unit, bracketed in _with_unit(text):
        column = known.by_path.get(_INDEX.sub(r".\1", name).casefold()) or known.named(name)
        if column is None:
            continue
        if not unit:
            return Meaning(column)
        taken = unit_of(unit, column.kind, column)
        if taken is not None and not (topic == "scenarios" and _says_too_little(text, unit)):
            return Meaning(column, taken, unit)
        if looks_like_unit(unit) or (whole is None and bracketed):
            expected = f', expected one such as "{column.unit}"' if column.unit else ", expected none"
            return Meaning(column, "", unit, problem=f'has the unit "{unit}"{expected}')
    if whole is not None:
        return Meaning(whole)
    return Meaning(None)


def _says_too_little(text: str, unit: str) -> bool:
    """Whether a price may be one of anything: "$", "price ($/h)"."""
    return "gpu" not in text.casefold() and (text == unit or bool(_AN_HOUR.fullmatch(unit)))


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
    match = _WITH_SIGN.fullmatch(text)
    if match:
        name = f"{match[1]} {match[3]}".strip()
        found.append((name, match[2], False))
        if "%" not in match[2] and (name or "/" in match[2]):
            found.append((f"{name} price".strip(), match[2], False))
    if "gpu" in text.casefold() and unit_of(text, "usd") is not None:
        found.append(("price", text, False))
    return found


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


def is_of_workloads(text: str) -> bool:
    """Whether a header is that of a length or a share of workloads: "ISL", "avg output tokens"."""
    plain = _MEAN.sub("", text)
    column = _meaning(plain, "workloads").column
    return column is not None and column.path in ("length", "output_tokens", "cached_share")


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
