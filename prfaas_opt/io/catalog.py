"""Where named models and workloads are found: the user's folders first, then what ships with the package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

Kind = Literal["models", "workloads"]

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_folder(kind: Kind) -> Path:
    """The folder that ships: inside an installed package, at the top of a checkout."""
    installed = _PACKAGE / "data" / kind
    return installed if installed.is_dir() else _PACKAGE.parent / kind


def user_folder() -> Path:
    """``$XDG_CONFIG_HOME/prfaas-opt``, by default ``~/.config/prfaas-opt``."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "prfaas-opt"


def folders(kind: Kind, beside: Path | None = None) -> list[Path]:
    """The folders searched, first to last.

    ``models/`` beside the file that names one, in the current folder, in the user's folder, then shipped. A file that
    is in such a folder itself finds its neighbours first.
    """
    candidates = [home / kind for home in _homes(beside)]
    if beside and beside.name == kind:
        candidates.insert(0, beside)
    return list(dict.fromkeys(filter(None, map(_real_folder, [*candidates, shipped_folder(kind)]))))


def _homes(beside: Path | None) -> list[Path]:
    """The folders whose ``models/`` and ``workloads/`` are searched, of those that exist at all."""
    homes = [beside] if beside else []
    for home in (Path.cwd, user_folder):
        try:
            homes.append(home())
        except (OSError, RuntimeError):
            continue
    return homes


def _real_folder(path: Path) -> Path | None:
    """The folder as an absolute path; None where there is none that can be read."""
    try:
        return path.resolve() if path.is_dir() and os.access(path, os.R_OK | os.X_OK) else None
    except OSError:
        return None


def entries(kind: Kind, beside: Path | None = None) -> dict[str, Path]:
    """Every name with its file, by name; of two with one name the one found first."""
    found: dict[str, Path] = {}
    for folder in folders(kind, beside):
        for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
            found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def looks_like_path(name: str) -> bool:
    """Whether a text names a file rather than an entry of the catalog."""
    return name.endswith((".yaml", ".yml")) or "/" in name or os.sep in name
