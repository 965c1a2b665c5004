"""Files made to harm whoever opens them, each in a few lines."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

_TYPES = (
    '<?xml version="1.0" encoding="UTF-8"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/></Types>'
)
_RELATIONS = (
    '<?xml version="1.0" encoding="UTF-8"?><Relationships '
    'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/><Relationship Id="rId2" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings" '
    'Target="sharedStrings.xml"/></Relationships>'
)
_WORKBOOK = (
    '<?xml version="1.0" encoding="UTF-8"?><workbook '
    'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>'
    '<sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>'
)
_ROOT = (
    '<?xml version="1.0" encoding="UTF-8"?><Relationships '
    'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>'
)
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


_PART_NAMES = {"_rels___rels": "_rels/.rels", "xl___rels__other___xml___rels": "xl/_rels/other.xml.rels"}


def sheet_xml(rows: str, dimension: str = "A1") -> str:
    """The XML of a sheet with these rows."""
    head = f'<?xml version="1.0" encoding="UTF-8"?><worksheet xmlns="{_MAIN}"><dimension ref="{dimension}"/>'
    return f"{head}<sheetData>{rows}</sheetData></worksheet>"


def xlsx(path: Path, rows: str = "", dimension: str = "A1", **parts: str | bytes) -> Path:
    """An .xlsx of one sheet; parts may be replaced, or added under names with __ for / and ___ for a point."""
    content: dict[str, str | bytes] = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _ROOT,
        "xl/workbook.xml": _WORKBOOK,
        "xl/_rels/workbook.xml.rels": _RELATIONS,
        "xl/worksheets/sheet1.xml": sheet_xml(rows, dimension),
    }
    for name, part in parts.items():
        content[_PART_NAMES.get(name, name.replace("___", ".").replace("__", "/"))] = part
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in content.items():
            archive.writestr(name, part)
    return path


def zip_bomb(path: Path) -> Path:
    """A sheet of 1 GB, nearly all of it spaces, that says so."""
    archive = zipfile.ZipFile(xlsx(path), "a", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("xl/worksheets/sheet2.xml", "w") as part:
        block = b" " * 2**24
        for _ in range(64):
            part.write(block)
    return path


def lying_zip_bomb(path: Path) -> Path:
    """A sheet of 1 GB that claims to have 1,000 bytes, with the checksum of those."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    real = sheet_xml("").encode().replace(b"</sheetData>", b"")
    packed = packer.compress(real) + b"".join(packer.compress(b" " * 2**24) for _ in range(64)) + packer.flush()
    claimed = (real + b" " * 1000)[:1000]
    stream = io.BytesIO()
    entries = []
    for name, part in (
        ("[Content_Types].xml", _TYPES),
        ("_rels/.rels", _ROOT),
        ("xl/workbook.xml", _WORKBOOK),
        ("xl/_rels/workbook.xml.rels", _RELATIONS),
        ("xl/worksheets/sheet1.xml", None),
    ):
        data = packed if part is None else part.encode()
        size, check = (1000, zlib.crc32(claimed)) if part is None else (len(data), zlib.crc32(data))
        fields = (20, 0, 8 if part is None else 0, 0, 33, check, len(data), size, len(name), 0)
        entries.append((name, fields, stream.tell()))
        stream.write(struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", *fields) + name.encode() + data)
    start = stream.tell()
    for name, fields, offset in entries:
        record = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\x01\x02", 20, *fields, 0, 0, 0, 0, offset)
        stream.write(record + name.encode())
    size = stream.tell() - start
    stream.write(struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, len(entries), len(entries), size, start, 0))
    path.write_bytes(stream.getvalue())
    return path


def entity_bomb(path: Path) -> Path:
    """A sheet whose entities grow to gigabytes."""
    entities = '<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    part = sheet_xml('<row r="1"><c r="A1" t="inlineStr"><is><t>&i;</t></is></c></row>').replace(
        "?><worksheet", f"?><!DOCTYPE worksheet [{entities}]><worksheet"
    )
    return xlsx(path, xl__worksheets__sheet1___xml=part)


def utf16_entities(path: Path) -> Path:
    """The same in UTF-16, where a search for its declaration finds nothing."""
    entity_bomb(path)
    with zipfile.ZipFile(path) as archive:
        part = archive.read("xl/worksheets/sheet1.xml").decode().replace('"UTF-8"', '"UTF-16"')
    return xlsx(path, xl__worksheets__sheet1___xml=part.encode("utf-16"))


def far_cell(path: Path) -> Path:
    """Two cells at opposite ends of the largest sheet there is."""
    rows = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    return xlsx(path, rows, "A1:XFD1048576")


def billion_rows(path: Path) -> Path:
    """A dimension of a billion rows, and a cell there."""
    rows = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1000000000"><c r="B1000000000"><v>1</v></c></row>'
    return xlsx(path, rows, "A1:B1000000000")


def another_workbook(path: Path) -> Path:
    """A second list of sheets, which the archive names as the first, with a cell far away."""
    rows = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    return xlsx(
        path,
        _rels___rels=_ROOT.replace("xl/workbook.xml", "xl/other.xml"),
        xl__other___xml=_WORKBOOK,
        xl___rels__other___xml___rels=_RELATIONS.replace("sheet1", "sheet2"),
        xl__worksheets__sheet2___xml=sheet_xml(rows),
    )


def only_a_dimension(path: Path) -> Path:
    """A dimension of a billion rows around one cell."""
    return xlsx(path, '<row r="1"><c r="A1"><v>1</v></c></row>', "A1:XFD1000000000")


def million_columns(path: Path) -> Path:
    """A row of a million cells that do not say where they are."""
    return xlsx(path, f'<row r="1">{"<c><v>1</v></c>" * 1_000_000}</row>')


def million_columns_csv(path: Path) -> Path:
    path.write_bytes(b"Model," + b"1," * 1_000_000)
    return path


def many_cells(path: Path) -> Path:
    """More cells than any study has."""
    row = "".join(f'<c r="{letter}{{0}}"><v>1</v></c>' for letter in "ABCDEFGHIJKLMNOPQRST")
    return xlsx(path, "".join(f'<row r="{r}">{row.format(r)}</row>' for r in range(1, 110_000)))


def long_cell(path: Path) -> Path:
    """A cell of a million characters."""
    text = "x" * 1_000_000
    return xlsx(path, f'<row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c></row>')


def repeated_long_text(path: Path) -> Path:
    """A text of 90,000 characters in 100,000 cells."""
    texts = f'<?xml version="1.0" encoding="UTF-8"?><sst xmlns="{_MAIN}"><si><t>{"x" * 90_000}</t></si></sst>'
    rows = "".join(f'<row r="{r}"><c r="A{r}" t="s"><v>0</v></c></row>' for r in range(1, 60_000))
    return xlsx(path, rows, xl__sharedStrings___xml=texts)


def macros(path: Path) -> Path:
    return xlsx(path, xl__vbaProject___bin=b"\0" * 100)


def macro_type(path: Path) -> Path:
    kind = "application/vnd.ms-excel.sheet.macroEnabled.main+xml"
    types = _TYPES.replace("</Types>", f'<Override PartName="/xl/workbook.xml" ContentType="{kind}"/></Types>')
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", types)
        archive.writestr("xl/workbook.xml", _WORKBOOK)
        archive.writestr("xl/_rels/workbook.xml.rels", _RELATIONS)
        archive.writestr("xl/worksheets/sheet1.xml", sheet_xml(""))
    return path


def _named(name: str) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        with zipfile.ZipFile(xlsx(path), "a") as archive:
            archive.writestr(name, b"x")
        return path

    return make


def absolute_target(path: Path) -> Path:
    """A relation that leads out of the workbook."""
    relations = _RELATIONS.replace("worksheets/sheet1.xml", "../../../../etc/passwd")
    return _with(path, relations)


def _with(path: Path, relations: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in (
            ("[Content_Types].xml", _TYPES),
            ("_rels/.rels", _ROOT),
            ("xl/workbook.xml", _WORKBOOK),
            ("xl/_rels/workbook.xml.rels", relations),
        ):
            archive.writestr(name, part)
    return path


def twice(path: Path) -> Path:
    """A part that is there twice, of which readers may take either."""
    import warnings

    with warnings.catch_warnings(), zipfile.ZipFile(xlsx(path), "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("xl/worksheets/sheet1.xml", sheet_xml('<row r="1"><c r="A1"><v>2</v></c></row>'))
    return path


def many_entries(path: Path) -> Path:
    with zipfile.ZipFile(xlsx(path), "a") as archive:
        for i in range(5000):
            archive.writestr(f"xl/media/{i}", b"")
    return path


def encrypted_office(path: Path) -> Path:
    """What a spreadsheet program saves with a password: an OLE file with an encrypted package."""
    path.write_bytes(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le") + b"\0" * 600
    )
    return path


def encrypted_zip(path: Path) -> Path:
    data = bytearray(xlsx(path).read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 8] |= 1
    path.write_bytes(bytes(data))
    return path


def encrypted_ods(path: Path, part: str = "content.xml") -> Path:
    """As LibreOffice saves with a password: parts that are noise, and a manifest that says so."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest:manifest><manifest:encryption-data/></manifest:manifest>")
        archive.writestr(part, b"\xff\xfe\0noise")
    return path


def encrypted_package_ods(path: Path) -> Path:
    """As newer ones do: all parts in one that is noise."""
    return encrypted_ods(path, "encrypted-package")


def truncated(path: Path) -> Path:
    data = xlsx(path, '<row r="1"><c r="A1"><v>1</v></c></row>').read_bytes()
    path.write_bytes(data[: len(data) // 2])
    return path


def broken_xml(path: Path) -> Path:
    return xlsx(path, '<row r="1"><c r="A1"><f>1</f><v>1</row>')


def ole_noise(path: Path) -> Path:
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(range(256)) * 40)
    return path


def empty_lines_csv(path: Path) -> Path:
    path.write_bytes(b"Model,Workload\n" + b"\n" * 20_000_000)
    return path


def many_errors(path: Path) -> Path:
    row = "".join(f'<c r="{letter}{{0}}" t="e"><v>#REF!</v></c>' for letter in "ABCDEFGHIJKLMNOPQRST")
    return xlsx(path, "".join(f'<row r="{r}">{row.format(r)}</row>' for r in range(1, 90_000)))


def large_styles(path: Path) -> Path:
    """A million styles of percentages."""
    one = '<xf numFmtId="9"/>'
    styles = f'<styleSheet xmlns="{_MAIN}"><cellXfs>{one * 700_000}</cellXfs></styleSheet>'
    return xlsx(path, '<row r="1"><c r="A1" s="5"><v>1</v></c></row>', xl__styles___xml=styles)


def repeated_percentages_ods(path: Path) -> Path:
    """A table that stays within all limits of cells, each of which shows a percentage."""
    from tests.sheets import ods, ods_row

    cell = '<table:table-cell table:number-columns-repeated="90" office:value-type="percentage" office:value="1"/>'
    row = ods_row((cell,), attributes='table:number-rows-repeated="22000"')
    return ods(path, f'<table:table table:name="S">{row}</table:table>')


def repeated_rows_ods(path: Path) -> Path:
    """A row that an .ods repeats a billion times."""
    from tests.sheets import ods, ods_row

    row = ods_row(1, 2, attributes='table:number-rows-repeated="1000000000"')
    return ods(path, f'<table:table table:name="S">{row}</table:table>')


def headers_everywhere_csv(path: Path) -> Path:
    """Rows that may all be headers, beside texts that are none."""
    rows = (",".join("Model" if j % 3 else f"link {i * j % 97}" for j in range(990)) for i in range(2000))
    path.write_text("\n".join(rows))
    return path


def repeated_cells_ods(path: Path) -> Path:
    from tests.sheets import ods, ods_row

    cell = '<table:table-cell table:number-columns-repeated="1000000000" office:value-type="float" office:value="1"/>'
    return ods(path, f'<table:table table:name="S">{ods_row((cell,))}</table:table>')


FILES: Mapping[str, tuple[Callable[[Path], Path], str]] = {
    "zip bomb": (zip_bomb, "MiB of tables, at most 96 MiB"),
    "zip bomb that lies": (lying_zip_bomb, ""),
    "entity bomb": (entity_bomb, "declares a DOCTYPE"),
    "entities in UTF-16": (utf16_entities, "is not UTF-8"),
    "far cell": (far_cell, "at most 2,000 are read"),
    "billion rows": (billion_rows, "expected A1 to XFD1048576"),
    "another workbook": (another_workbook, "at most 2,000 are read"),
    "only a dimension": (only_a_dimension, "no table of scenarios"),
    "million columns": (million_columns, "columns, at most 2,000"),
    "million columns, CSV": (million_columns_csv, "columns, at most 2,000"),
    "many cells": (many_cells, "at most 2,000,000 cells"),
    "long cell": (long_cell, "at most 100,000"),
    "long text, repeated": (repeated_long_text, "repeats long texts"),
    "macros": (macros, "macros"),
    "macro type": (macro_type, "macros"),
    "name upwards": (_named("../../etc/passwd"), "expected names inside"),
    "absolute name": (_named("/etc/passwd"), "expected names inside"),
    "name on a drive": (_named("C:\\x"), "expected names inside"),
    "relation upwards": (absolute_target, ""),
    "archive inside": (_named("xl/inner.zip"), "holds the archive"),
    "part twice": (twice, "twice"),
    "many parts": (many_entries, "at most 2,000"),
    "encrypted by a program": (encrypted_office, "is encrypted"),
    "encrypted archive": (encrypted_zip, "is encrypted"),
    "encrypted ODS": (encrypted_ods, "is encrypted"),
    "encrypted package, ODS": (encrypted_package_ods, "is encrypted"),
    "truncated": (truncated, "is no complete workbook"),
    "broken XML": (broken_xml, "is no complete workbook"),
    "noise in an OLE file": (ole_noise, "is no complete workbook"),
    "empty lines, CSV": (empty_lines_csv, "cells, at most 2,000,000"),
    "headers everywhere, CSV": (headers_everywhere_csv, "fills model, as"),
    "errors everywhere": (many_errors, "200,000 cells with errors"),
    "many styles": (large_styles, ""),
    "percentages repeated, ODS": (repeated_percentages_ods, "no table of scenarios"),
    "rows repeated, ODS": (repeated_rows_ods, "row 1,000,000,000"),
    "cells repeated, ODS": (repeated_cells_ods, "1,000,000,000 columns"),
}
"""How each is made, and what its error says."""
