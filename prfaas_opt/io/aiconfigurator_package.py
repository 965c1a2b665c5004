"""NVIDIA's ``aiconfigurator``, an optional package, as an ``Estimator``: the only module that knows it."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from prfaas_opt.errors import InputError, Problem
from prfaas_opt.io.estimator import EXPERTS, Answer, Deployment, GpuMemory, Question, RefusedError
from prfaas_opt.units import SIZE_SUFFIXES

PACKAGE = "aiconfigurator"
PIP = "pip install 'prfaas-opt[aiconfigurator]'"

_KV_FORMATS = {"bf16": "bfloat16", "fp8": "fp8"}
_ENGINES = {"trtllm": "TensorRT-LLM", "sglang": "SGLang", "vllm": "vLLM"}
_MODES = ("silicon", "hybrid", "empirical", "sol")
_PARTS = {"gemm": "matrices", "moe": EXPERTS, "fmha": "attention", "kvcache": "keys and values"}
_ENGINE_MEMORY = ("activations", "nccl", "others")


def open_aiconfigurator() -> Aiconfigurator:
    """The package, where it is installed.

    Raises:
        InputError: it is not, or what is installed under its name has not the parts that are used.
    """
    try:
        return Aiconfigurator()
    except metadata.PackageNotFoundError:
        message = f"the package {PACKAGE} is not installed, expected it beside prfaas-opt; it takes about 850 MB"
        fix = PIP
    except (ImportError, AttributeError) as error:
        message = f"the package {PACKAGE} cannot be used: {_one_line(error)}"
        fix = "pip install --upgrade aiconfigurator; version 0.12.0 is known to work"
    raise InputError(Problem("missing-package", "--from", message, fix)) from None


class Aiconfigurator:
    """The package. ``cli_estimate`` is its documented Python API; models, systems and configs are those of its SDK."""

    name = PACKAGE
    backends: Collection[str] = tuple(_ENGINES)
    database_modes: Collection[str] = _MODES

    def __init__(self) -> None:
        self.version = metadata.version(PACKAGE)
        for logger in (PACKAGE, "aiconfigurator_core"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        # By name: the package is optional, and its types are not ours to check.
        api = importlib.import_module("aiconfigurator.cli.api")
        self._estimate, self._has_experts = api.cli_estimate, api.check_is_moe
        common = importlib.import_module("aiconfigurator_core.sdk.common")
        self.models: Collection[str] = tuple(sorted(common.get_default_models()))
        self.systems: Collection[str] = tuple(sorted(common.SupportedSystems))
        # Finding the newest database of a backend takes a hundred times longer than an answer.
        self._database: dict[tuple[str, str], str] = {}

    def config(self, model: str) -> Path | None:
        """The ``config.json`` in a model's folder, or the one that the package ships."""
        found = importlib.util.find_spec("aiconfigurator_core")
        shipped = Path(found.origin).parent if found and found.origin else Path()
        own = Path(model, "config.json")
        path = own if own.is_file() else shipped / "model_configs" / f"{model.replace('/', '--')}_config.json"
        return path if path.is_file() else None

    def ask(self, deployment: Deployment, question: Question) -> Answer:
        """One call of ``cli_estimate``.

        Raises:
            RefusedError: it raised anything at all: its errors have no common class, and a gap in the data is any.
        """
        key = deployment.system, deployment.backend
        experts = {"moe_tp_size": deployment.expert_tensor_parallel, "moe_ep_size": deployment.expert_parallel}
        try:
            has_experts = self._has_experts(deployment.model)
            found = self._estimate(
                deployment.model,
                deployment.system,
                mode="static_ctx" if question.figure == "prefill" else "static_gen",
                isl=question.tokens,
                prefix=question.cached_tokens,
                # A decode step is what lies between two output tokens.
                osl=1 if question.figure == "prefill" else 2,
                batch_size=question.batch,
                backend_name=deployment.backend,
                backend_version=self._database.get(key),
                database_mode=deployment.database_mode.upper(),
                tp_size=deployment.gpus,
                kvcache_quant_mode=_KV_FORMATS[deployment.kv_dtype],
                **(experts if has_experts else {}),
            )
        except Exception as error:
            raise RefusedError(_one_line(error)) from None
        self._database[key] = found.backend_version
        return _answer(found, deployment, question, has_experts)


def _answer(found: Any, deployment: Deployment, question: Question, has_experts: bool) -> Answer:
    prefill, summary = question.figure == "prefill", found.summary
    by_part = summary.get_context_latency_dict() if prefill else summary.get_generation_latency_dict()
    origins = summary.get_context_source_dict() if prefill else summary.get_generation_source_dict()
    origin_ms: dict[str, float] = {}
    for part, part_ms in by_part.items():
        origin = str(origins.get(part, "unknown"))
        origin_ms[origin] = origin_ms.get(origin, 0.0) + float(part_ms)
    return Answer(
        float(found.ttft if prefill else found.tpot),
        found.kv_cache_warning is None,
        f"{_ENGINES[deployment.backend]} {found.backend_version}",
        {
            name: str(found.raw[part])
            for part, name in _PARTS.items()
            if found.raw.get(part) is not None and (has_experts or name != EXPERTS)
        },
        origin_ms,
        _memory(summary.get_memory(), summary.get_mem_capacity_bytes()),
        tuple(f"{fallback}" for fallback in found.moe_comm_fallbacks),
    )


def _memory(parts: Mapping[str, float] | None, capacity_bytes: float | None) -> GpuMemory | None:
    if not parts or not capacity_bytes or not {"weights", "total", *_ENGINE_MEMORY} <= set(parts):
        return None
    engine = sum(float(parts[part]) for part in _ENGINE_MEMORY)
    sizes = (float(parts["weights"]), engine, float(parts["total"]))
    return GpuMemory(float(capacity_bytes), *(size * SIZE_SUFFIXES["gib"] for size in sizes))


def _one_line(error: BaseException) -> str:
    """An error without line breaks, nor the package's own files and the list of what it tried, which may follow."""
    return (
        re.sub(r"(: tried lane_order.*| (at|in) \S*[/\\]\S+)", "", " ".join(str(error).split())) or type(error).__name__
    )
