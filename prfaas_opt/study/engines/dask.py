"""Chunks planned on a Dask cluster. Results come back here; nothing is written anywhere else."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import logging
import os
import pickle
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Any

from prfaas_opt.errors import InputError, Problem, SolverError
from prfaas_opt.study.engines.chunk import Chunk, Piece, Pieces, planned_bytes
from prfaas_opt.version import __version__

if TYPE_CHECKING:
    from prfaas_opt.study.rows import Rows

ANSWER_S = 10.0
"""How long a scheduler may take to answer."""
WORKERS_S = 60.0
"""How long to wait for the first worker."""

_WHERE = "--scheduler"
_IN_FLIGHT_A_THREAD = 2
_LIBRARIES = ("numpy", "pyarrow", "scipy")


class OtherVersionError(Exception):
    """A worker has other versions than this program, which may give other figures."""


def _versions() -> dict[str, str]:
    return {"prfaas-opt": __version__} | {name: metadata.version(name) for name in _LIBRARIES}


def planned_there(rows: Rows, start: int, stop: int, versions: dict[str, str]) -> bytes:
    """What a worker does for a chunk."""
    here = _versions()
    for name, wanted in versions.items():
        if here[name] != wanted:
            raise OtherVersionError(f"has {name} {here[name]}, expected {wanted}")
    return planned_bytes(rows, start, stop)


@dataclass(frozen=True)
class Dask:
    """Plans on the workers of a scheduler, a bounded number of chunks at a time."""

    scheduler: str

    def planned(self, rows: Rows, chunks: Iterable[Chunk]) -> Generator[tuple[int, bytes], None, None]:
        """Numbers of chunks with their tables, as they come."""
        with _connected(self.scheduler) as client:
            yield from _run(client, self.scheduler, rows, iter(chunks))


@contextlib.contextmanager
def _connected(scheduler: str) -> Iterator[Any]:
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        message = "needs the package distributed, which is not installed"
        raise InputError(
            Problem("missing-package", "--engine dask", message, "run: pip install 'prfaas-opt[dask]'")
        ) from None
    try:
        client = distributed.Client(scheduler, timeout=ANSWER_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        why = f": {error}" if isinstance(error, ValueError | TypeError) else ""
        message = f"no Dask scheduler answers at {scheduler}{why}"
        fix = "start one (dask scheduler), or check the address: tcp://HOST:8786"
        raise InputError(Problem("unreachable", _WHERE, message, fix)) from None
    try:
        yield client
    finally:
        # Closing tells the scheduler that nobody waits any more: it drops what is not done yet.
        with contextlib.suppress(Exception):
            client.close(timeout=ANSWER_S)


def quiet() -> None:
    """For the command line: the client says in logs and tracebacks what this program says in words."""
    with contextlib.suppress(ImportError):
        importlib.import_module("distributed")  # which sets the levels of its loggers
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _run(client: Any, scheduler: str, rows: Rows, chunks: Iterator[Chunk]) -> Iterator[tuple[int, bytes]]:
    distributed: Any = importlib.import_module("distributed")
    try:
        client.wait_for_workers(1, timeout=WORKERS_S)
    except TimeoutError:
        message = f"the scheduler at {scheduler} has no workers"
        raise InputError(Problem("unreachable", _WHERE, message, f"start one: dask worker {scheduler}")) from None
    flight = _Flight(client, rows, chunks)
    completed = distributed.as_completed(flight.more(), loop=client.loop, raise_errors=False)
    try:
        for future in completed:
            piece = flight.landed(future)
            try:
                payload = future.result()
            except distributed.KilledWorker:
                payload = flight.died(piece)
            except OtherVersionError as error:
                fix = "install the same versions on the workers as here"
                raise InputError(Problem("other-version", _WHERE, f"a worker {error}", fix)) from None
            except (ImportError, RuntimeError) as error:
                if os.environ.get("PRFAAS_OPT_DEBUG"):
                    raise
                why = str(error).partition("\n")[0]
                fix = "install the same prfaas-opt on the scheduler and the workers"
                raise InputError(
                    Problem("other-version", _WHERE, f"the cluster cannot load this program: {why}", fix)
                ) from None
            finally:
                future.release()
            completed.update(flight.more())
            whole = None if payload is None else flight.pieces.finished(piece, payload)
            if whole is not None:
                yield piece.chunk.number, whole
    except (distributed.CancelledError, OSError):
        message = f"the scheduler at {scheduler} is gone"
        fix = "start it anew; what is done is kept, and the same command goes on"
        raise SolverError(Problem("unreachable", _WHERE, message, fix)) from None


class _Flight:
    """The chunks that are at the cluster."""

    def __init__(self, client: Any, rows: Rows, chunks: Iterator[Chunk]) -> None:
        self._client, self._chunks = client, chunks
        self.pieces = Pieces(rows)
        self._again: deque[Piece] = deque()
        self._flying: dict[str, Piece] = {}
        pickled = pickle.dumps(rows)
        # A task, not scattered data: it is made anew where the worker that has it ends.
        key = f"prfaas-opt-rows-{hashlib.blake2b(pickled, digest_size=16).hexdigest()}"
        self._rows = client.submit(pickle.loads, pickled, key=key)
        self._versions = _versions()

    def more(self) -> list[Any]:
        """Futures of as many pieces more as the cluster should have."""
        threads = sum(self._client.nthreads().values())
        futures = []
        while len(self._flying) < max(2, _IN_FLIGHT_A_THREAD * threads):
            piece = self._next()
            if piece is None:
                break
            future = self._client.submit(
                planned_there, self._rows, piece.start, piece.stop, self._versions, pure=False, retries=0
            )
            self._flying[future.key] = piece
            futures.append(future)
        return futures

    def _next(self) -> Piece | None:
        if self._again:
            return self._again.popleft()
        chunk = next(self._chunks, None)
        return None if chunk is None else Pieces.whole(chunk)

    def landed(self, future: Any) -> Piece:
        """The piece of a future that is done."""
        return self._flying.pop(future.key)

    def died(self, piece: Piece) -> bytes | None:
        """The table of a row that ended its workers; None where the piece is planned again, in parts."""
        again = self.pieces.died(piece, deaths=2)  # the scheduler has tried it several times
        self._again.extend(again)
        return None if again else self.pieces.marked(piece)
