"""Grids of cells by calamine, the fast reader, whose failures are errors of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.archive import encrypted, refused
from prfaas_opt.sheets.book import MOST_CHARACTERS, Sheet

if TYPE_CHECKING:
    import io


def grids(file: io.BytesIO, name: str) -> list[Sheet]:
    """The sheets of a workbook that was found to be of a bearable size; charts and the like are left out.

    Raises:
        InputError: it cannot be read.
    """
    import python_calamine as calamine

    sheets = []
    try:
        book = calamine.CalamineWorkbook.from_filelike(file)
        for metadata in book.sheets_metadata:
            if metadata.typ != calamine.SheetTypeEnum.WorkSheet:
                continue
            found = book.get_sheet_by_name(metadata.name)
            rows = found.to_python(skip_empty_area=False)
            sheets.append(
                Sheet(
                    printable(metadata.name),
                    rows,
                    merged=list(found.merged_cell_ranges or ()),
                    visible=metadata.visible == calamine.SheetVisibleEnum.Visible,
                )
            )
    except calamine.PasswordError:
        raise encrypted(name) from None
    except BaseException as error:
        # A panic of the reader is no Exception; an interrupt is none of its failures.
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        reason = printable(str(error)) or type(error).__name__
        message = f"is no complete workbook: {reason[:200]}"
        fix = "open it in a spreadsheet program and save it anew, or fetch it again"
        raise refused(name, message, fix, "damaged-file") from None
    for sheet in sheets:
        _check_texts(sheet, name)
    return sheets


def _check_texts(sheet: Sheet, name: str) -> None:
    longest = max(map(len, sheet.texts), default=0)
    if longest > MOST_CHARACTERS:
        message = f"holds a cell of {longest:,} characters, at most {MOST_CHARACTERS:,} are read"
        fix = "cut it; spreadsheet programs stop at 32,767"
        raise refused(f"{name} ({sheet.name})", message, fix, "too-large")
