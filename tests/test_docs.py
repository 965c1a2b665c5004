"""README and docs: their Python runs, their links lead somewhere, every command is documented."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from prfaas_opt.cli.commands import Commands

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_there_are_pages() -> None:
    assert len(PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_in_a_page_gives_what_it_shows(page: Path) -> None:
    results = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    broken = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert broken == []


def test_every_command_stands_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert len(Commands.known) >= 10
    assert [name for name in Commands.known if f"## prfaas-opt {name}\n" not in reference] == []
