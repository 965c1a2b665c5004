"""Running a study: chunk by chunk, each kept as soon as it is done, then all of them written in their order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.study.chunks import rows_at_once
from prfaas_opt.study.engines.chunk import Chunks, from_bytes
from prfaas_opt.study.fingerprint import made_from
from prfaas_opt.study.summary import StudyRun, Tally
from prfaas_opt.study.work_folder import WorkFolder, work_folder_of

if TYPE_CHECKING:
    from prfaas_opt.study.engines import Engine
    from prfaas_opt.study.rows import Rows


@dataclass(frozen=True)
class Progress:
    """How far a study is.

    Attributes:
        rows: of the study.
        kept: rows that an earlier run had done.
        done: rows that are done, those included.
        stage: ``planning``, or ``writing`` the output.
    """

    rows: int
    kept: int
    done: int
    stage: str = "planning"


Show = Callable[[Progress], None]


class StudyInterrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of a study; ``message`` says what is kept."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def run_rows(
    rows: Rows,
    engine: Engine,
    output: Path | None,
    *,
    inputs: Mapping[str, str],
    fresh: bool = False,
    chunk_rows: int | None = None,
    show: Show = lambda _: None,
) -> StudyRun:
    """Plans all rows, and writes them where an output is named.

    Args:
        rows: of the study.
        engine: that plans them.
        output: file to write; its ending says the format.
        inputs: digests of the files that the study was read from, by their name in words.
        fresh: replace what is there, whether done or half done.
        chunk_rows: rows that are planned and kept together, what a kill may lose for each worker; None: as the study
            suggests.
        show: is told how far it is.

    Raises:
        InputError: the output cannot be written, or holds something else.
        StudyInterrupted: Ctrl-C; what is done is kept.
    """
    if not len(rows):
        raise InputError(Problem("no-rows", rows.name, "has no rows, expected scenarios", "add a row"))
    chunk_rows = chunk_rows or rows_at_once(rows)
    chunks = Chunks(len(rows), chunk_rows)
    if output is None:
        return _tallied(rows, engine, chunks, show)
    folder = WorkFolder(work_folder_of(output))
    _check(output, folder.path, len(rows), fresh)
    with folder.opened(made_from(rows, inputs, chunk_rows), fresh):
        kept = chunks.rows_of(folder.kept)
        _plan(rows, engine, chunks, folder, kept, show)
        tally = _write(rows, folder, output, Progress(len(rows), kept, 0, "writing"), show)
        folder.remove()
    return tally.run(rows, kept, str(output))


def _check(output: Path, folder: Path, rows: int, fresh: bool) -> None:
    """Raises what can be told of an output before anything is planned."""
    from prfaas_opt.study.outputs import check_output

    check_output(output, rows)
    where = str(output)
    if not output.parent.is_dir():
        message = f"there is no folder {output.parent}"
        raise InputError(Problem("missing-file", where, message, "make it, or name another file"))
    if output.is_dir():
        raise InputError(Problem("not-writable", where, "is a folder, expected a file to write", "name a file in it"))
    if output.exists() and not folder.exists() and not fresh:
        fix = "name another file, or add --fresh to replace it"
        raise InputError(Problem("file-exists", where, "is there already", fix))


def _tallied(rows: Rows, engine: Engine, chunks: Chunks, show: Show) -> StudyRun:
    """What the rows come to, where none is written."""
    tally = Tally(rows.objective)
    try:
        with contextlib.closing(engine.planned(rows, chunks)) as planned:
            for _, payload in planned:
                tally.add(from_bytes(payload))
                show(Progress(len(rows), 0, tally.rows))
    except KeyboardInterrupt:
        done = f"{tally.rows:,} of {len(rows):,} rows were planned"
        raise StudyInterrupted(f"{done} and nothing is kept; with -o FILE the same command would go on") from None
    return tally.run(rows, 0, None)


def _plan(rows: Rows, engine: Engine, chunks: Chunks, folder: WorkFolder, kept: int, show: Show) -> None:
    """Plans the chunks that are not kept yet and keeps each."""
    done = kept
    try:
        show(Progress(len(rows), kept, done))
        missing = (chunk for chunk in chunks if chunk.number not in folder.kept)
        with contextlib.closing(engine.planned(rows, missing)) as planned:
            for number, payload in planned:
                folder.store(number, payload)
                done += chunks.rows_of([number])
                show(Progress(len(rows), kept, done))
        if done != len(rows):  # nothing is written that does not have every row
            raise RuntimeError(f"{done} of {len(rows)} rows came back from planning")
    except KeyboardInterrupt:
        done = chunks.rows_of(folder.stored())
        message = f"{done:,} of {len(rows):,} rows are done and kept in {folder.path}; the same command goes on"
        raise StudyInterrupted(message) from None


def _write(rows: Rows, folder: WorkFolder, output: Path, begun: Progress, show: Show) -> Tally:
    """Writes the parts in their order; what the rows come to."""
    from prfaas_opt.study.columns import schema_of
    from prfaas_opt.study.outputs import writer_for

    tally = Tally(rows.objective)
    # In the folder, where what a kill leaves of it is found and removed.
    written = folder.output(output.suffix)
    writer = writer_for(written, schema_of(rows))
    try:
        for payload in folder.parts():
            table = from_bytes(payload)
            writer.write(table)
            tally.add(table)
            show(Progress(begun.rows, begun.kept, tally.rows, begun.stage))
        writer.close()
    except KeyboardInterrupt:
        writer.abort()
        message = f"all {begun.rows:,} rows are done and kept in {folder.path}; the same command writes {output}"
        raise StudyInterrupted(message) from None
    except BaseException:
        writer.abort()
        raise
    folder.publish(written, output)
    return tally
