"""What a tool that estimates latencies is asked and answers, whichever tool it is.

``aiconfigurator_package`` asks the real one; tests play answers back. Nothing here knows either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

EXPERTS = "experts"
"""In ``formats``: the part that only a mixture of experts has."""


@dataclass(frozen=True)
class Deployment:
    """An instance, as the estimator names its parts.

    Attributes:
        model: a name on Hugging Face, or a folder with a ``config.json``.
        system: the kind of GPU and its board, as ``h200_sxm``.
        backend: the serving engine.
        gpus: GPUs of the instance; attention and dense layers are split over all of them (tensor parallel).
        expert_tensor_parallel: GPUs that share each expert of a mixture; the rest of the split is by experts.
        kv_dtype: data type of keys and values, ``bf16`` or ``fp8``.
        database_mode: what the estimator may use: measurements only, formulas in their gaps, formulas only.
    """

    model: str
    system: str
    backend: str
    gpus: int
    expert_tensor_parallel: int
    kv_dtype: str
    database_mode: str

    @property
    def expert_parallel(self) -> int:
        """GPUs or groups of them that the experts are spread over."""
        return self.gpus // self.expert_tensor_parallel


@dataclass(frozen=True)
class Question:
    """Prefill of one prompt of ``tokens`` (batch 1), or one decode step of a batch at a context of ``tokens``.

    Of a prompt, ``cached_tokens`` at its start are in the KVCache already.
    """

    figure: Literal["prefill", "decode"]
    tokens: int
    batch: int = 1
    cached_tokens: int = 0


@dataclass(frozen=True)
class GpuMemory:
    """Bytes of one GPU, as the estimator counts them.

    Attributes:
        capacity_bytes: all there is.
        weights_bytes: of the model.
        engine_bytes: of activations, communication buffers and the engine itself: all but weights and KVCache.
        total_bytes: weights, engine and the estimator's own KVCache figure.
    """

    capacity_bytes: float
    weights_bytes: float
    engine_bytes: float
    total_bytes: float


@dataclass(frozen=True)
class Answer:
    """What an estimator says of a question.

    Attributes:
        latency_ms: milliseconds; may be anything, as it came.
        fits: whether the estimator finds that it fits in memory.
        engine: the serving engine and version it is for.
        formats: number formats by part of the model, ``EXPERTS`` among them where it has experts.
        origin_ms: of the latency, the milliseconds from each kind of source (``silicon``: measurements).
        memory: of one GPU; None where it is not told.
        notes: what it did otherwise than asked.
    """

    latency_ms: float
    fits: bool
    engine: str
    formats: Mapping[str, str] = field(default_factory=dict)
    origin_ms: Mapping[str, float] = field(default_factory=dict)
    memory: GpuMemory | None = None
    notes: tuple[str, ...] = ()


class RefusedError(Exception):
    """The estimator has no answer; the message says why, in its words."""


class Estimator(Protocol):
    """A tool that estimates latencies."""

    @property
    def name(self) -> str:
        """Of the tool."""

    @property
    def version(self) -> str:
        """Of the tool."""

    @property
    def models(self) -> Collection[str]:
        """Models it knows by name."""

    @property
    def systems(self) -> Collection[str]:
        """Kinds of GPU it knows."""

    @property
    def backends(self) -> Collection[str]:
        """Serving engines it knows."""

    @property
    def database_modes(self) -> Collection[str]:
        """Modes of its database, in lower case."""

    def config(self, model: str) -> Path | None:
        """The ``config.json`` that it reads for a model; None where there is none on this machine."""

    def ask(self, deployment: Deployment, question: Question) -> Answer:
        """Answers.

        Raises:
            RefusedError: it has no answer.
        """
