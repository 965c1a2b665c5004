"""JSON Schemas of what goes in and what comes out, from the declarations that read and write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from prfaas_opt.check_api import ModelCheck
from prfaas_opt.derive_api import KvDerivation
from prfaas_opt.envelope import Envelope, ErrorEnvelope
from prfaas_opt.errors import InputError, Problem
from prfaas_opt.fit_api import ModelFit
from prfaas_opt.fleet_results import FleetPlan, Sizing
from prfaas_opt.import_api import Import
from prfaas_opt.io.model_file import MODEL
from prfaas_opt.io.scenario_file import SCENARIO
from prfaas_opt.io.spec import Record, suggestion
from prfaas_opt.io.targets_file import TARGETS
from prfaas_opt.io.workload_file import WORKLOAD
from prfaas_opt.listings import KvAnswer, Models, Workloads
from prfaas_opt.reproduction.rows import Reproduction
from prfaas_opt.results import Comparison, Plan
from prfaas_opt.scale_api import Scaling
from prfaas_opt.sheets.explanation import Explanation
from prfaas_opt.study.definition import STUDY
from prfaas_opt.study.explanation import StudyExplanation
from prfaas_opt.study.report.answers import StudyReport
from prfaas_opt.study.summary import StudyRun

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _answer(data: type) -> Callable[[], dict[str, Any]]:
    return lambda: msgspec.json.schema(Envelope[data])  # type: ignore[valid-type]


def _file(record: Record) -> Callable[[], dict[str, Any]]:
    return record.schema


_SCHEMAS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "plan": ("answer of `plan --json` for two pools", _answer(Plan)),
    "plan-fleet": ("answer of `plan --json` for more clusters or models", _answer(FleetPlan)),
    "size": ("answer of `size --json`", _answer(Sizing)),
    "compare": ("answer of `compare --json`", _answer(Comparison)),
    "kv": ("answer of `kv --json`", _answer(KvAnswer)),
    "models": ("answer of `models list --json` and of `models show`", _answer(Models)),
    "models derive": ("answer of `models derive --json`", _answer(KvDerivation)),
    "models import": ("answer of `models import --json`", _answer(Import)),
    "models fit": ("answer of `models fit --json`", _answer(ModelFit)),
    "models check": ("answer of `models check --json`", _answer(ModelCheck)),
    "models scale": ("answer of `models scale --json`", _answer(Scaling)),
    "workloads": ("answer of `workloads list --json` and of `workloads show`", _answer(Workloads)),
    "study": ("answer of `study --json`", _answer(StudyRun)),
    "study-explain": ("answer of `study --explain --json` for a study file", _answer(StudyExplanation)),
    "study-explain-sheet": ("answer of `study --explain --json` for a spreadsheet", _answer(Explanation)),
    "study report": ("answer of `study report --json`", _answer(StudyReport)),
    "reproduce": ("answer of `reproduce --json`", _answer(Reproduction)),
    "sheet template": ("answer of `sheet template --json`", _answer(dict[str, str])),
    "init": ("answer of `init --json`", _answer(dict[str, str])),
    "error": ("answer of any command with --json that fails", lambda: msgspec.json.schema(ErrorEnvelope)),
    "scenario": ("a scenario file", _file(SCENARIO)),
    "model": ("a model file", _file(MODEL)),
    "workload": ("a workload file", _file(WORKLOAD)),
    "study-file": ("a study file: a base scenario and axes", _file(STUDY)),
    "targets": ("a file of published figures for `models fit --targets`", _file(TARGETS)),
}


def descriptions() -> dict[str, str]:
    """What there is a schema of."""
    return {name: description for name, (description, _) in _SCHEMAS.items()}


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a command's answer or of a kind of file.

    Raises:
        InputError: there is none of this name.
    """
    if name not in _SCHEMAS:
        raise InputError(Problem("unknown-name", "schema", f'there is no schema "{name}"', suggestion(name, _SCHEMAS)))
    description, make = _SCHEMAS[name]
    return {"$schema": _DIALECT, "title": f"prfaas-opt: {description}"} | make()
