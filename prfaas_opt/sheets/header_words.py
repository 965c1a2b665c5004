"""The words of headers, by which columns are found."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

from msgspec import Struct

from prfaas_opt.sheets.catalogue import (
    PD,
    PRICE_COLUMNS,
    PROFILE_COLUMNS,
    REMOTE,
    WORKLOAD_COLUMNS,
    Column,
    scenario_columns,
)

Topic = Literal["scenarios", "profiles", "workloads", "prices"]
TOPICS: tuple[Topic, ...] = ("profiles", "workloads", "prices", "scenarios")

WORD = re.compile(r"[^\W_]+|#")
SIGNS = re.compile("[%$\u20ac\u00a3\u00a5\u20b9]")
"""Signs of units, which are no words."""


class Lookup(Struct, frozen=True):
    """The columns of a topic by the words of their headers, and words that may be several of them."""

    by_key: dict[tuple[str, ...], Column]
    by_path: dict[str, Column]
    doubtful: dict[tuple[str, ...], tuple[str, ...]]
    names: dict[str, str]
    by_pair: dict[str, tuple[str, ...]]

    def named(self, name: str) -> Column | None:
        """The column of a name; signs of units belong to none."""
        return None if SIGNS.search(name) else self.by_key.get(key(name))


def key(text: str) -> tuple[str, ...]:
    """The words of a header, whatever their order, case and punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return tuple(sorted(WORD.findall(folded)))


@cache
def lookup(topic: Topic) -> Lookup:
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
    by_pair: dict[str, list[str]] = {}
    for name in names:
        for pair in pairs(name):
            by_pair.setdefault(pair, []).append(name)
    found = {pair: tuple(each) for pair, each in by_pair.items()}
    return Lookup(by_key, {column.path.casefold(): column for column in columns}, doubtful, names, found)


def pairs(text: str) -> set[str]:
    """The pairs of letters beside each other, by which texts that are nearly alike are found."""
    return {text[i : i + 2] for i in range(len(text) - 1)}


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
                    for other in ([], ["cluster"], *([["decode"], ["decode", "cluster"]] if label == "pd" else [])):
                        found.setdefault(tuple(sorted([*rest, *other])), []).append(column.header)
    gpus = {cluster: f"GPU ({label})" for cluster, label in ((REMOTE, "prefill"), (PD, "PD"))}
    roles = (("", (REMOTE, PD)), ("prefill", (REMOTE,)), ("remote", (REMOTE,)), ("decode", (PD,)))
    for role, clusters in roles:
        found[key(f"{role} cluster")] = [gpus[cluster] for cluster in clusters]
    found[key("PD cluster")] = [gpus[PD]]
    return {words: tuple(dict.fromkeys(headers)) for words, headers in found.items() if words and words not in by_key}
