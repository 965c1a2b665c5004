"""Runs the studies that ship, through the command line, and makes their tables and pictures.

python scripts/studies --output DIR       results, reports, tables and pictures of all studies
python scripts/studies --pictures         the pictures of docs/explanation, in place
python scripts/studies --tables STUDY     the tables of one as JSON, by name, for scripts/docs
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import cross_datacenter
import fleet_mix
from running import report

STUDIES: dict[str, Any] = {module.NAME: module for module in (cross_datacenter, fleet_mix)}
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "explanation"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--output", type=Path, metavar="DIR")
    wanted.add_argument("--pictures", action="store_true")
    wanted.add_argument("--tables", choices=STUDIES, metavar="STUDY")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.tables:
            module = STUDIES[arguments.tables]
            print(json.dumps(module.tables(module.run(Path(temporary)))))
            return
        folder = arguments.output or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, module in STUDIES.items():
            found = module.run(folder)
            path = (PICTURES if arguments.pictures else folder) / f"{name}.svg"
            path.write_bytes(module.picture(found))
            print(f"wrote {path}")
            if arguments.output:
                for study in module.STUDIES:
                    report(study, folder)
                for table, text in module.tables(found).items():
                    path = folder / f"{name}-{table}.md"
                    path.write_text(text + "\n", encoding="utf-8")
                    print(f"wrote {path}")


if __name__ == "__main__":
    main()
