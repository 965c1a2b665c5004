"""Prices on extra sheets, of accelerators and of the link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prfaas_opt.errors import Problem
from prfaas_opt.sheets.extra import Extras, records

if TYPE_CHECKING:
    from prfaas_opt.sheets.notation import Notation
    from prfaas_opt.sheets.tables import Table


def read_prices(tables: list[Table], notation: Notation, include_hidden: bool, extras: Extras) -> None:
    """Adds the prices of tables."""
    for table in tables:
        for record in records(table, notation, include_hidden, extras.problems):
            hardware = str(record.values.get("hardware", "link"))
            of_link = hardware.casefold() in ("link", "links", "network", "egress", "wan")
            for key, value in record.values.items():
                if key == "hardware":
                    continue
                stated = (value, record.places[key])
                held, name = extras.link_prices, key
                if key == "price_per_gpu_hour":
                    if of_link:
                        message = f"is a price per GPU-hour of {hardware}, expected one of an accelerator"
                        fix = 'put prices of links under "Link price ($/Gbps-hour)" or "Egress price ($/GB)"'
                        extras.problems.append(Problem("misplaced-key", record.places[key], message, fix))
                        continue
                    held, name = extras.gpu_prices, hardware.casefold()
                if name in held and held[name][0] != value:
                    message = f"{hardware} has another price at {held[name][1]}, expected one"
                    extras.problems.append(Problem("ambiguous", record.places[key], message, "keep one of them"))
                held.setdefault(name, stated)
