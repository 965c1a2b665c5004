"""Spreadsheets in: a file with a row a scenario, as rows for a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from prfaas_opt.io.document import Document
    from prfaas_opt.sheets.rows import SheetRows

SUFFIXES = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods", ".csv", ".tsv", ".tab")
"""Of files that are tables; what a file really is, its content says."""


def read_scenarios(
    path: str | Path,
    *,
    sheet: str | None = None,
    base: Document | None = None,
    locale: str | None = None,
    include_hidden: bool = False,
) -> SheetRows:
    """The scenarios of a spreadsheet, a row each.

    A row with something ambiguous stays, with its problems; only what concerns the whole file is raised.

    Args:
        path: an .xlsx, .xls, .ods, .csv or .tsv file.
        sheet: the sheet of scenarios; None: the one that has them.
        base: what fields without a column are; None: nothing but two pools and a link, for the columns to fill.
        locale: how numbers in texts are written: ``en``, ``de``, ``de_DE``, or a sample, ``1.234,5``; None: by evidence.
        include_hidden: take hidden rows and sheets too.

    Raises:
        InputError: the file cannot be read, is hostile, or has no table of scenarios.
    """
    raise NotImplementedError
