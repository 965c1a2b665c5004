"""Models and workloads by name, path or mapping, wherever they stand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io import catalog
from prfaas_opt.io.wording import closest, printable, suggestion
from prfaas_opt.io.yaml_file import read_document

if TYPE_CHECKING:
    from prfaas_opt.io.document import Document, FieldPath
    from prfaas_opt.profiles.model import Model
    from prfaas_opt.workload.workload import Workload


def find(kind: catalog.Kind, name: str, where: str, beside: Path | None = None) -> Path:
    """The file of a named or pathed model or workload.

    Args:
        kind: what is looked for.
        name: an entry of the catalog, or a path (relative to ``beside``).
        where: the place that names it, for the error.
        beside: folder of the file that names it.

    Raises:
        InputError: there is no such entry or file.
    """
    if catalog.looks_like_path(name):
        return _file(kind, name, where, beside)
    known = catalog.entries(kind, beside)
    if name not in known:
        message = f'there is no {kind.removesuffix("s")} "{printable(name)}"'
        raise InputError(Problem("unknown-name", where, message, suggestion(name, known)))
    return known[name]


def _file(kind: catalog.Kind, name: str, where: str, beside: Path | None) -> Path:
    try:
        path = (beside or Path()) / Path(name).expanduser()
        there = path.is_file()
    except (OSError, RuntimeError):
        path, there = Path(name), False
    if not there:
        near = closest(path.stem, catalog.entries(kind, beside))
        fix = f"did you mean the {kind.removesuffix('s')} {near[0]}?" if near else "check the path"
        raise InputError(Problem("missing-file", where, f"there is no file {printable(str(path))}", fix))
    return path


def load_model(name: str, where: str = "--model", beside: Path | None = None) -> Model:
    """A model by its name in the catalog or its path.

    Raises:
        InputError: it is not there, or its file is wrong.
    """
    return _load_model(name, where, beside, ())


def _load_model(name: str, where: str, beside: Path | None, asking: tuple[Path, ...]) -> Model:
    path = find("models", name, where, beside)
    if path.resolve() in asking:
        chain = " -> ".join(p.stem for p in (*asking, path))
        fix = "give one of them a latency of its own"
        raise InputError(Problem("circular", where, f"models are scaled by each other: {chain}", fix))
    return model_of(read_document(path, "model"), (*asking, path.resolve()))


def model_of(document: Document, asking: tuple[Path, ...] = (), path: FieldPath = ()) -> Model:
    """The model that a document, or a field of it, describes."""
    from prfaas_opt.io.model_file import read_model

    return read_model(document, lambda name, where: _load_model(name, where, document.folder, asking), path)


def load_workload(name: str, where: str = "--workload", beside: Path | None = None) -> Workload:
    """A workload by its name in the catalog or its path.

    Raises:
        InputError: it is not there, or its file is wrong.
    """
    from prfaas_opt.io.workload_file import read_workload

    return read_workload(read_document(find("workloads", name, where, beside), "workload"))
