""".xls workbooks, by xlrd, which shows errors, hidden rows, merged cells and formats, as the fast reader does not."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from prfaas_opt.io.wording import printable
from prfaas_opt.sheets.archive import encrypted, refused
from prfaas_opt.sheets.book import Book, Flaw, Sheet
from prfaas_opt.sheets.extent import check_size

if TYPE_CHECKING:
    import xlrd

MOST_BYTES = 16 * 2**20
"""Of a file, all of which is held in memory several times."""

_MACROS = "_VBA_PROJECT".encode("utf-16-le")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_UNSEEN = "a formula that was never calculated is not told from one whose value is 0 (.xls does not say)"


def read_xls(data: bytes, name: str) -> Book:
    """The workbook in an OLE file.

    Raises:
        InputError: it is encrypted, has macros, is damaged or no workbook.
    """
    import xlrd
    from xlrd.biffh import XLRDError

    if _ENCRYPTED in data:
        raise encrypted(name)
    if _MACROS in data:
        message = "is a workbook with macros, which are not opened"
        raise refused(name, message, "save it as .xlsx, without macros", "macro-workbook")
    if len(data) > MOST_BYTES:
        message = f"is larger than {MOST_BYTES // 2**20} MiB, the most that is read of .xls"
        raise refused(name, message, "save it as .xlsx", "too-large")
    try:
        book = xlrd.open_workbook(
            file_contents=data, formatting_info=True, ragged_rows=True, logfile=io.StringIO(), on_demand=False
        )
        sheets = [_sheet(book, index, name) for index in range(book.nsheets)]
    except XLRDError as error:
        if "encrypted" in str(error):
            raise encrypted(name) from None
        raise _damaged(name, error) from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, OSError) as error:
        raise _damaged(name, error) from None
    except Exception as error:
        if type(error).__module__ not in ("struct", "xlrd.compdoc", "xlrd.formula"):
            raise
        raise _damaged(name, error) from None
    return Book(name, "xls", sheets, notes=[_UNSEEN])


def _damaged(name: str, error: Exception) -> Exception:
    message = f"is no complete workbook: {(printable(str(error)) or type(error).__name__)[:200]}"
    fix = "open it in a spreadsheet program and save it as .xlsx"
    return refused(name, message, fix, "damaged-file")


def _sheet(book: xlrd.Book, index: int, name: str) -> Sheet:
    found = book.sheet_by_index(index)
    check_size(f"{name} ({printable(found.name)})", found.nrows, found.ncols)
    sheet = Sheet(printable(found.name), [], percents=set(), visible=not found.visibility)
    percent = {
        i for i, xf in enumerate(book.xf_list) if xf.format_key in book.format_map
        and "%" in book.format_map[xf.format_key].format_str
    }  # fmt: skip
    for r in range(found.nrows):
        row: list[Any] = []
        for c, cell in enumerate(found.row(r)):
            row.append(_value(book, sheet, cell, (r, c)))
            if cell.xf_index in percent and sheet.percents is not None:
                sheet.percents.add((r, c))
        sheet.rows.append(row)
    sheet.merged = [((r0, c0), (r1 - 1, c1 - 1)) for r0, r1, c0, c1 in found.merged_cells]
    sheet.hidden_rows = {r for r, info in found.rowinfo_map.items() if info.hidden}
    sheet.hidden_columns = {c for c, info in found.colinfo_map.items() if info.hidden}
    return sheet


def _value(book: xlrd.Book, sheet: Sheet, cell: Any, place: tuple[int, int]) -> Any:
    """A cell as the fast reader would give it."""
    import xlrd

    if cell.ctype in (xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK):
        return ""
    if cell.ctype == xlrd.XL_CELL_BOOLEAN:
        return bool(cell.value)
    if cell.ctype == xlrd.XL_CELL_ERROR:
        sheet.flaws[place] = Flaw("error", xlrd.error_text_from_code.get(cell.value, "#ERROR"))
        return ""
    if cell.ctype == xlrd.XL_CELL_DATE:
        moment = xlrd.xldate_as_datetime(cell.value, book.datemode)
        return moment.time() if cell.value < 1 else moment
    return cell.value
