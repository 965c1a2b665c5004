"""Chunks planned in this process, or in several processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from prfaas_opt.errors import Problem, SolverError
from prfaas_opt.study.engines.chunk import Chunk, Piece, Pieces, planned_bytes

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from prfaas_opt.study.rows import Rows

MOST_DEATHS = 100
"""Workers that may end before a study stops: then it is the machine that is at fault, not a few rows."""

_READY = b""


@dataclass(frozen=True)
class InProcess:
    """Plans one chunk after the other."""

    def planned(self, rows: Rows, chunks: Iterable[Chunk]) -> Generator[tuple[int, bytes], None, None]:
        """Numbers of chunks with their tables."""
        for chunk in chunks:
            yield chunk.number, planned_bytes(rows, chunk.start, chunk.stop)


@dataclass(frozen=True)
class Processes:
    """Plans with several processes, a chunk each at a time; one that ends is replaced and its chunk planned again."""

    workers: int

    def planned(self, rows: Rows, chunks: Iterable[Chunk]) -> Generator[tuple[int, bytes], None, None]:
        """Numbers of chunks with their tables, as they come."""
        pool = _Pool(rows, iter(chunks))
        try:
            yield from pool.run(self.workers)
        finally:
            pool.close()


@dataclass(eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection
    piece: Piece | None = None
    ready: bool = False


class _Pool:
    """The processes, and what each is at: a plain executor does not say which chunk ended a process."""

    def __init__(self, rows: Rows, chunks: Iterator[Chunk]) -> None:
        self._pickled = pickle.dumps(rows)
        self._chunks = chunks
        self._pieces = Pieces(rows)
        self._again: deque[Piece] = deque()
        self._marked: deque[tuple[int, bytes]] = deque()
        self._workers: list[_Worker] = []
        self._never_ready = 0

    def run(self, workers: int) -> Iterator[tuple[int, bytes]]:
        """Numbers of chunks with their tables, as they come."""
        waiting = self._next()
        while waiting is not None and len(self._workers) < workers:
            self._start(waiting)
            waiting = self._next()
        while self._workers:
            connections = {worker.connection: worker for worker in self._workers}
            for connection in wait(list(connections)):
                worker = connections[connection]  # type: ignore[index]
                try:
                    payload = worker.connection.recv_bytes()
                except (EOFError, OSError):
                    waiting = self._replace(worker, waiting)
                    while self._marked:
                        yield self._marked.popleft()
                    continue
                if payload == _READY:
                    worker.ready = True
                    continue
                piece, worker.piece = worker.piece, None
                assert piece is not None
                # The next is handed over first, so that the worker is at it while this one is stored.
                if waiting is None:
                    waiting = self._next()
                if waiting is None:
                    self._end(worker)
                else:
                    self._give(worker, waiting)
                    waiting = self._next()
                whole = self._pieces.finished(piece, payload)
                if whole is not None:
                    yield piece.chunk.number, whole

    def _next(self) -> Piece | None:
        if self._again:
            return self._again.popleft()
        chunk = next(self._chunks, None)
        return None if chunk is None else Pieces.whole(chunk)

    def _start(self, piece: Piece) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work, args=(theirs, self._pickled), daemon=True)
        with _interrupts_blocked():
            process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        self._give(worker, piece)

    @staticmethod
    def _give(worker: _Worker, piece: Piece) -> None:
        worker.piece = piece
        with contextlib.suppress(OSError):  # it has ended: waiting for its answer finds out
            worker.connection.send((piece.start, piece.stop))

    def _replace(self, worker: _Worker, waiting: Piece | None) -> Piece | None:
        """Plans again what a worker that ended was at; what waits for a worker then."""
        self._end(worker)
        self._never_ready = 0 if worker.ready else self._never_ready + 1
        piece = worker.piece
        assert piece is not None
        if self._never_ready >= 3 or self._pieces.deaths >= MOST_DEATHS:
            raise SolverError(_workers_end(worker))
        again = self._pieces.died(piece) if worker.ready else [piece]
        if not again:
            whole = self._pieces.finished(piece, self._pieces.marked(piece))
            if whole is not None:
                self._marked.append((piece.chunk.number, whole))
        self._again.extendleft(reversed(again))
        if waiting is None:
            waiting = self._next()
        if waiting is None:
            return None
        self._start(waiting)
        return self._next()

    def _end(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.connection.close()
        worker.process.join(timeout=5)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()

    def close(self) -> None:
        """Ends all workers at once, whatever they are at."""
        for worker in self._workers:
            worker.process.kill()
        while self._workers:
            self._end(self._workers[0])


def _workers_end(worker: _Worker) -> Problem:
    message = f"worker processes keep ending (exit code {worker.process.exitcode})"
    if worker.ready:
        fix = "see whether memory runs out; what is done is kept, and the same command goes on"
        return Problem("workers-end", "--workers", message, fix)
    fix = 'in a script, call this inside: if __name__ == "__main__":'
    return Problem("workers-end", "--workers", f"{message} before they begin", fix)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process started inside never sees Ctrl-C, which is this one's to handle."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work(connection: Connection, pickled: bytes) -> None:
    """What a process does: plans what it is given until nobody is there to give more."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    rows: Rows = pickle.loads(pickled)
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        connection.send_bytes(_READY)
        while True:
            start, stop = connection.recv()
            connection.send_bytes(planned_bytes(rows, start, stop))
