"""Puts the rows of scenarios together: columns as fields, prices from extra sheets, rows without remote cluster."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.document import Document
from prfaas_opt.sheets.catalogue import PD, PRICE_OF_ALL, REMOTE
from prfaas_opt.study.rows import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from prfaas_opt.sheets.book import Book
    from prfaas_opt.sheets.extra import Extras

_AMOUNTS = ("instances", "gpus")


@dataclass
class Filled:
    """A field as the rows fill it.

    Attributes:
        path: of the field.
        values: one a row.
        column: of the sheet; None for what other sheets give.
        elsewhere: the place of values from other sheets, by row.
    """

    path: str
    values: list[Any]
    column: int | None = None
    elsewhere: dict[int, str] = field(default_factory=dict)


@dataclass
class Pools:
    """The names of the clusters that the columns fill; None where the base has none, or several."""

    pd: str | None
    remote: str | None
    has_link: bool

    def known(self, header: str) -> str:
        """A header that is a path with the base's own names of clusters, with those of the catalogue."""
        for placeholder, name in ((PD, self.pd), (REMOTE, self.remote)):
            start = f"clusters.{name}."
            if name is not None and header.casefold().startswith(start.casefold()):
                return f"clusters.{placeholder}.{header[len(start) :]}"
        return header

    def path(self, path: str) -> str | None:
        """A path of the catalogue with the base's own names; None where nothing says which cluster it is."""
        for placeholder, name in ((PD, self.pd), (REMOTE, self.remote)):
            if path.startswith(f"clusters.{placeholder}."):
                return None if name is None else f"clusters.{name}.{path.split('.', 2)[2]}"
        return path


def pools_of(base: Document | None) -> Pools:
    """The clusters of a base document."""
    if base is None:
        return Pools(PD, REMOTE, False)
    data = base.data if isinstance(base.data, dict) else {}
    clusters, links = data.get("clusters"), data.get("links")
    by_role: dict[str, list[str]] = {"pd": [], "prefill": []}
    for name, cluster in (clusters if isinstance(clusters, dict) else {}).items():
        if isinstance(cluster, dict) and cluster.get("role") in by_role:
            by_role[cluster["role"]].append(name)
    one = {role: names[0] if len(names) == 1 else None for role, names in by_role.items()}
    return Pools(
        one["pd"] if by_role["pd"] else PD, one["prefill"] if by_role["prefill"] else REMOTE, bool(links)
    )  # fmt: skip


def outline(base: Document | None, pools: Pools, book: Book, has_remote: bool) -> Document:
    """The document that rows change: the base, with the clusters and the link that columns fill."""
    data: dict[str, Any] = {} if base is None else base.data
    if not isinstance(data, dict):
        assert base is not None
        return base
    data = copy.copy(data)
    clusters = dict(data.get("clusters") or {})
    changed = False
    if pools.pd is not None and pools.pd not in clusters:
        clusters[pools.pd] = {"role": "pd"}
        changed = True
    if has_remote and pools.remote is not None:
        if pools.remote not in clusters:
            clusters[pools.remote] = {"role": "prefill"}
            changed = True
        if not pools.has_link and pools.pd is not None:
            data["links"] = [{"from": pools.remote, "to": pools.pd}]
            changed = True
    if base is not None and not changed:
        return base
    data["clusters"] = clusters
    if base is None:
        return Document(book.name, data, folder=book.folder)
    return Document(base.name, data, base.lines, base.folder, base.problems, base.made)


def spread_prices(columns: dict[str, Filled], pools: Pools, extras: Extras, base: Document | None, count: int) -> None:
    """Fills the prices that a row states for all clusters, and those of extra sheets where it states none."""
    of_all = columns.pop(PRICE_OF_ALL, None)
    names = [name for name in (pools.remote, pools.pd) if name is not None]
    for name in names:
        hardware = _hardware(columns, name, base, count)
        if of_all is None and not extras.gpu_prices:
            break
        path = f"clusters.{name}.price_per_gpu_hour"
        own = columns.get(path)
        if own is None and of_all is not None and UNSET not in of_all.values and UNSET not in hardware:
            columns[path] = Filled(path, list(of_all.values), of_all.column)
            continue
        own = own or Filled(path, [UNSET] * count)
        for row in range(count):
            if own.values[row] is not UNSET or hardware[row] is UNSET:
                continue
            if of_all is not None and of_all.values[row] is not UNSET:
                own.values[row] = of_all.values[row]
                own.column = of_all.column if own.column is None else own.column
            else:
                price = extras.gpu_prices.get(str(hardware[row]).casefold())
                if price is not None:
                    own.values[row], own.elsewhere[row] = price
        if any(value is not UNSET for value in own.values):
            columns[path] = own
    _link_prices(columns, pools, extras, count)


def _link_prices(columns: dict[str, Filled], pools: Pools, extras: Extras, count: int) -> None:
    given = any(path.startswith("links.0.") for path in columns)
    for key, (price, place) in extras.link_prices.items():
        if not given and not pools.has_link:
            continue
        path = f"links.0.{key}"
        own = columns.get(path) or Filled(path, [UNSET] * count)
        for row in range(count):
            if own.values[row] is UNSET:
                own.values[row], own.elsewhere[row] = price, place
        columns[path] = own


def _hardware(columns: dict[str, Filled], cluster: str, base: Document | None, count: int) -> list[Any]:
    """The hardware of a cluster in each row."""
    stated = UNSET
    if base is not None and isinstance(base.data, dict):
        clusters = base.data.get("clusters")
        known = clusters.get(cluster) if isinstance(clusters, dict) else None
        if isinstance(known, dict) and isinstance(known.get("hardware"), str):
            stated = known["hardware"]
    column = columns.get(f"clusters.{cluster}.hardware")
    if column is None:
        return [stated] * count
    return [stated if value is UNSET else value for value in column.values]


def without_remote(columns: dict[str, Filled], pools: Pools, has_base: bool, count: int) -> set[int]:
    """Rows that have nothing remote: their amount is 0, or, without a base, all that is remote is left empty.

    The fields of the remote cluster and its link are unset in them.
    """
    if pools.remote is None:
        return set()
    prefix = f"clusters.{pools.remote}."
    remote = {path: column for path, column in columns.items() if path.startswith((prefix, "links.0."))}
    amounts = [remote[prefix + key] for key in _AMOUNTS if prefix + key in remote]
    telling = [
        column for path, column in remote.items() if path.startswith(prefix) and not path.endswith("price_per_gpu_hour")
    ]
    telling += [remote["links.0.bandwidth"]] if "links.0.bandwidth" in remote else []
    if not telling:
        return set()
    if not any(0 in column.values for column in amounts) and (has_base or UNSET not in telling[0].values):
        return set()
    rows = set()
    for row in range(count):
        stated = [column.values[row] for column in amounts if column.values[row] is not UNSET]
        none = bool(stated) and all(value.__class__ in (int, float) and value == 0 for value in stated)
        if none or (not has_base and all(column.values[row] is UNSET for column in telling)):
            rows.add(row)
    for column in remote.values():
        for row in rows:
            column.values[row] = UNSET
            column.elsewhere.pop(row, None)
    return rows


def structure(rows: set[int], pools: Pools, base: Document, count: int) -> list[Filled]:
    """The fields that take the remote cluster and its links from some rows."""
    clusters = base.data.get("clusters", {}) if isinstance(base.data, dict) else {}
    local = {name: cluster for name, cluster in clusters.items() if name != pools.remote}
    return [
        Filled("clusters", [local if row in rows else UNSET for row in range(count)]),
        Filled("links", [[] if row in rows else UNSET for row in range(count)]),
    ]


def refuse(problems: list[Problem]) -> None:
    """Raises what is wrong with a file as a whole, if anything is."""
    if problems:
        raise InputError(list(dict.fromkeys(problems)))


def substitute(
    columns: Mapping[str, Filled], path: str, known: Mapping[str, Any], problems: Callable[[int, list[Problem]], None]
) -> set[str]:
    """Replaces names by the mappings of extra sheets; returns the names that rows use."""
    column = columns.get(path)
    if column is None or not known:
        return set()
    folded = {name.casefold(): name for name in known}
    used: set[str] = set()
    for row, value in enumerate(column.values):
        name = folded.get(value.casefold()) if isinstance(value, str) else None
        if name is not None:
            used.add(name)
            column.values[row] = known[name].data
            if known[name].problems:
                problems(row, known[name].problems)
    return used
