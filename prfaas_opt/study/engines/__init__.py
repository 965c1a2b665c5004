"""What plans the chunks of a study: this process, several, or a cluster."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prfaas_opt.study.engines.chunk import Chunk
    from prfaas_opt.study.rows import Rows


class Engine(Protocol):
    """Plans chunks in any order."""

    def planned(self, rows: Rows, chunks: Iterable[Chunk]) -> Generator[tuple[int, bytes], None, None]:
        """Numbers of chunks with their tables, as bytes of an Arrow file; closing it ends all work."""
