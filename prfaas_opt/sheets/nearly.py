"""What a header that is no column may be meant as: a column misspelled, or one that planners call otherwise."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING

from prfaas_opt.sheets.catalogue import scenario_columns
from prfaas_opt.sheets.header_words import Lookup, key, pairs

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONG = 4
"""Words of a header, of which one may be wrong."""
_NUMBERING = {"#", "no", "nr", "id", "number"}

_LIMITS = {
    "slo",
    "sla",
    "target",
    "limit",
    "max",
    "maximum",
    "budget",
    "objective",
    "ms",
    "s",
    "sec",
    "link",
    "network",
}
"""Words beside those that say what is limited."""
_TTFT = ("TTFT P50 SLO (s)", "TTFT P90 SLO (s)", "TTFT P95 SLO (s)", "TTFT P99 SLO (s)")
_SPEED = ("SLO (tokens/s)",)
_INVERSE = "it is 1000 / TPOT in ms"
_OTHER_WORDS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("ttft", _TTFT, "say of which percentile"),
    ("time to first token", _TTFT, "say of which percentile"),
    ("tpot", _SPEED, _INVERSE),
    ("itl", _SPEED, _INVERSE),
    ("time per output token", _SPEED, _INVERSE),
    ("inter token latency", _SPEED, _INVERSE),
    ("tps", _SPEED, "the decode rate of one request"),
    ("latency", ("RTT (ms)",), "there and back"),
    ("ping", ("RTT (ms)",), ""),
    ("one way latency", ("RTT (ms)",), "there and back"),
    ("qps", ("Demand (req/s)",), ""),
    ("rps", ("Demand (req/s)",), ""),
)
"""What planners call fields of which a word more must be said, the headers meant, and what tells which."""

_COUNTED = {"node", "nodes", "server", "servers", "host", "hosts", "machine", "machines", "replica", "replicas"}
_COUNTED |= {"worker", "workers", "box", "boxes", "pod", "pods"}
_NUMBERS = {"#", "count", "number", "of", "no", "nr", "total"}
_ALL_TOGETHER = {*_COUNTED, *_NUMBERS, "sum", "gpu", "gpus", "instances"}
"""Words of a column that adds up others."""
_DECODING = "PD is all of that cluster: the plan says how many of its instances decode"


def near(text: str, names: Iterable[str], known: Lookup) -> tuple[tuple[str, ...], str]:
    """The headers that a text may be meant as, and what tells which of them.

    Args:
        text: of a header that is no column.
        names: that it has with and without what may be its unit.
        known: the columns of its topic.
    """
    words = set(key(text))
    hint = _DECODING if "decode" in words else ""
    if known.doubtful:
        for name, headers, telling in _OTHER_WORDS:
            if words - _LIMITS == set(key(name)):
                return headers, telling
        if words <= _ALL_TOGETHER and words & {"total", "sum"}:
            return (), ""
        counted = _counting(words, known)
        if counted:
            return counted, hint
    return _alike(text, names, known), hint


def _counting(words: set[str], known: Lookup) -> tuple[str, ...]:
    """The columns of amounts that a header has another word for: "prefill nodes", "# prefill"."""
    rest = words - _COUNTED - _NUMBERS
    alone = not rest and not any(word.endswith("s") for word in words & _COUNTED)
    if alone or (not words & _COUNTED and rest not in ({"prefill"}, {"decode"}, {"pd"})):
        return ()
    found: list[str] = []
    for amount in ("instances", "gpus"):
        form = tuple(sorted([*rest, amount]))
        column = known.by_key.get(form)
        found += (column.header,) if column is not None else known.doubtful.get(form, ())
    return tuple(dict.fromkeys(found))


def _alike(text: str, names: Iterable[str], known: Lookup) -> tuple[str, ...]:
    """Headers that differ from one in a few letters, a word, or in what they leave open."""
    for form in (text, *names):
        words = key(form)
        if known.doubtful.get(words):
            return known.doubtful[words]
        found: list[str] = []
        for candidate in {form.casefold(), " ".join(words)}:
            close = difflib.get_close_matches(candidate, _likely(candidate, known), n=3, cutoff=0.75)
            for name in close:
                ratio = difflib.SequenceMatcher(None, candidate, name).ratio()
                if ratio >= 0.87 or sorted(candidate) == sorted(name):
                    found.append(known.names[name])
        found += [_first_of(known, each) for each in known.by_key if _one_word_apart(words, each)]
        if found and not (set(words) & _NUMBERING and set(found) == {"Name"}):
            return tuple(dict.fromkeys(found))
    words = key(text)
    counts = ({"count", *_COUNTED} & set(words)) and any(ch.isdigit() for ch in text)
    if known.doubtful and (counts or {"instances", "gpus"} & set(words)):
        return tuple(column.header for column in scenario_columns() if column.path.endswith((".instances", ".gpus")))
    return ()


def _likely(text: str, known: Lookup) -> list[str]:
    """The names of columns that share enough with a text to be worth a closer look."""
    own = pairs(text)
    shared = Counter(name for pair in own for name in known.by_pair.get(pair, ()))
    return [name for name, count in shared.items() if 3 * count >= len(own)]


def _one_word_apart(words: tuple[str, ...], known: tuple[str, ...]) -> bool:
    """Whether two long headers differ in one word: "price per GPU month"."""
    return len(words) == len(known) >= _LONG and len(set(words) - set(known)) == 1 == len(set(known) - set(words))


def _first_of(known: Lookup, words: tuple[str, ...]) -> str:
    return known.by_key[words].header
