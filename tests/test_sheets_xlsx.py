"""What the XML of a workbook shows beside values, however it is written."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from prfaas_opt.errors import InputError
from prfaas_opt.sheets import xlsx
from prfaas_opt.sheets.book import Flaw
from prfaas_opt.sheets.extent import count_cells, extent
from prfaas_opt.sheets.reading import read_scenarios
from tests import hostile_sheets
from tests.hostile_sheets import sheet_xml

CELLS = (
    '<c r="{0}"{1}><v>1</v></c>',
    '<c r="{0}"{1}><f>1</f><v>2</v></c>',
    '<c r="{0}"{1}><f>1</f><v>0</v></c>',
    '<c r="{0}"{1}><f>1</f><v/></c>',
    '<c r="{0}"{1}><f>1</f></c>',
    '<c r="{0}"{1} t="e"><v>#N/A</v></c>',
    '<c r="{0}"{1} t="e"><f>x</f><v>#N/A</v></c>',
    '<c r="{0}"{1} t="e"><v>#REF!</v></c>',
    '<c r="{0}"{1} t="str"><f>x</f><v></v></c>',
    '<c r="{0}"{1} t="inlineStr"><is><t>abc</t></is></c>',
    '<c r="{0}"{1} t="s"><v>0</v></c>',
    '<c r="{0}"{1}/>',
)
"""Attributes in the order in which programs write them: reference, style, type."""


def made(seed: int) -> str:
    """Some rows of cells of every kind."""
    how = random.Random(seed)
    rows = []
    for row in range(1, 6):
        styles = [how.choice(("", ' s="1"', ' s="2"')) for _ in "ABCD"]
        cells = [how.choice(CELLS).format(f"{c}{row}", s) for c, s in zip("ABCD", styles, strict=True)]
        hidden = how.choice(("", ' hidden="1"', ' hidden="0"'))
        rows.append(f'<row r="{row}"{hidden}>{"".join(cells)}</row>')
    return "".join(rows)


def looked(rows: str, recalculates: bool, plain: bool, edit: Any = lambda part: part) -> Any:
    part = edit(sheet_xml(rows)).encode()
    cells, is_plain = count_cells(part)
    size = extent(part, cells) if is_plain else None
    assert (size is not None) == plain
    assert cells >= 20
    looker = xlsx.Looker({"2"}, recalculates, [7], "test")
    marks = looker.look(part, None if size is None else xlsx.Marks(rows=size[0], columns=size[1]))
    return marks.flaws, marks.percents, marks.hidden_rows, marks.text_bytes


@pytest.mark.parametrize("recalculates", [False, True])
def test_however_it_is_written_the_same_is_seen(recalculates: bool) -> None:
    for seed in range(200):
        rows = made(seed)
        seen = looked(rows, recalculates, plain=True)
        for edit in (
            lambda part: re.sub(r"<(/?)(c|f|v|row|is|t)\b", r"<\1x:\2", part),
            lambda part: re.sub(r'(<(?:c|row)) r="[A-Z]?\d"', r"\1", part),
            lambda part: part.replace('<c r="', '<c  r="'),
            lambda part: part.replace("<c r=", "<c\nr="),
        ):
            assert looked(rows, recalculates, plain=False, edit=edit) == seen


def test_which_cells_have_no_value() -> None:
    rows = "".join(f'<row r="{i}">{cell.format(f"A{i}", "")}</row>' for i, cell in enumerate(CELLS * 2, 1))
    flaws, percents, hidden, text_bytes = looked(rows, False, plain=True)
    uncalculated, error = Flaw("uncalculated", ""), Flaw("error", "#REF!")
    first = {3: uncalculated, 4: uncalculated, 6: Flaw("error", "#N/A"), 7: error}
    assert flaws == {(row + more, 0): flaw for row, flaw in first.items() for more in (0, len(CELLS))}
    assert (percents, hidden, text_bytes) == (set(), set(), 14)
    recalculated, *_ = looked(rows, True, plain=True)
    assert recalculated.keys() - flaws.keys() == {(row + more, 0) for row in (2, 8) for more in (0, len(CELLS))}


def test_where_a_sheet_ends() -> None:
    def size(*references: str) -> tuple[int, int]:
        part = sheet_xml("".join(f'<c r="{reference}"/>' for reference in references)).encode()
        found = extent(part, count_cells(part)[0])
        assert found is not None
        return found

    assert size("A1", "C70001", "B3") == (70001, 3)
    assert size("AB1", "A2") == (2, 28)
    assert size("XFD1048576", "A9") == (1048576, 16384)
    assert all(a >= b for a, b in zip(size("B7", "Z69999"), (69999, 26), strict=True))


@pytest.mark.parametrize("number", ["INF", "-inf", "NaN", "1e999", "nan"])
def test_numbers_that_are_none(tmp_path: Path, number: str) -> None:
    def text(cell: str, content: str) -> str:
        return f'<c r="{cell}" t="inlineStr"><is><t>{content}</t></is></c>'

    rows = (
        f'<row r="1">{text("A1", "Model")}{text("B1", "PD instances")}{text("C1", "Owner")}</row>'
        f'<row r="2">{text("A2", "internal-1t")}<c r="B2"><v>{number}</v></c><c r="C2"><v>{number}</v></c></row>'
    )
    file = hostile_sheets.xlsx(tmp_path / "plan.xlsx", rows)
    try:
        found = [problem.where for problem in read_scenarios(file).problems(0)]
    except InputError as error:
        found = [problem.where for problem in error.problems]
    assert found in (["S!B2"], ["plan.xlsx"])


FAR = '<row r="1"><c r="A1"><v>1</v></c>{}</row>'


@pytest.mark.parametrize(
    "cell",
    [
        '<c r="A2" r="XFD1048576"><v>1</v></c>',
        "<c r=\"A2\" r ='XFD1048576'><v>1</v></c>",
        '<c r="A2"\nr= "XFD1048576"><v>1</v></c>',
        '<c r="xfd1048576"><v>1</v></c>',
        '<c r="A4294967295"><v>1</v></c>',
        '<c r="A99999999999"><v>1</v></c>',
        '<c r="A0"><v>1</v></c>',
        '<c r="$A$2"><v>1</v></c>',
        '<x:c r="XFD1048576"><v>1</v></x:c>',
        '<c t="n" r="XFD1048576"><v>1</v></c>',
        '<c r="&#88;FD1048576"><v>1</v></c>',
        "<c r='XFD1048576'><v>1</v></c>",
    ],
)
def test_references_that_readers_take_differently_are_refused(tmp_path: Path, cell: str) -> None:
    file = hostile_sheets.xlsx(tmp_path / "plan.xlsx", FAR.format(cell))
    with pytest.raises(InputError, match=r"at most 2,000|is no complete workbook|expected A1 to XFD1048576"):
        read_scenarios(file)
