"""Texts that no spreadsheet program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_RUNS = r"^('*[=+\-@\t\r\n])"
"""How a text begins that a spreadsheet program takes for a formula, or one that an apostrophe was put before."""
_HARMLESS = r"^'('*[=+\-@\t\r\n])"


def harmless(texts: pa.Array[pa.StringScalar]) -> pa.Array[pa.StringScalar]:
    """Texts that a spreadsheet program might run, with an apostrophe before them; the others as they are."""
    import pyarrow.compute as pc

    return pc.replace_substring_regex(texts, _RUNS, r"'\1")


def as_written(texts: pa.Array[pa.StringScalar]) -> pa.Array[pa.StringScalar]:
    """The texts that ``harmless`` was given."""
    import pyarrow.compute as pc

    return pc.replace_substring_regex(texts, _HARMLESS, r"\1")
