"""Peaks of accelerators, from public figures: what no prefill is faster than, and what profiles are scaled by.

Rates are dense. Vendors print some with structured sparsity only; half of such a figure is the dense one. ``source``
is the page a figure was read on. Those are mostly pages that quote the vendor's data sheet, not the sheet itself;
``unverified`` names the figures that no such page confirms, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Accelerator:
    """One GPU, or one chip.

    Attributes:
        rates_per_s: dense operations a second of its matrix units, by number format: fp4, fp8, fp16 (bf16 is the
            same) or int8.
        memory_bytes_per_s: peak of its memory; None where no figure is public.
        memory_bytes: size of its memory.
        source: where the figures were read.
        unverified: figures to distrust, by attribute or number format, and why.
    """

    rates_per_s: Mapping[str, float]
    memory_bytes_per_s: float | None
    memory_bytes: float
    source: str
    unverified: Mapping[str, str] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """The number format it multiplies fastest."""
        return max(self.rates_per_s, key=lambda name: self.rates_per_s[name])

    @property
    def flops_per_s(self) -> float:
        """The largest dense rate, in any number format."""
        return self.rates_per_s[self.format]


ACCELERATORS = {
    # Dense as quoted; fp8 is given as its int8 rate, which on Hopper is the same.
    "H20": Accelerator(
        {"fp16": 148e12, "fp8": 296e12},
        4.0e12,
        96e9,
        "https://willitrunai.com/es/gpus/h20-96gb",
        {"fp8": "read as the int8 rate; no page of NVIDIA on the H20 was found"},
    ),
    # SXM, dense.
    "H100": Accelerator(
        {"fp16": 989.5e12, "fp8": 1979e12}, 3.35e12, 80e9, "https://glennklockwood.com/garden/processors/h100"
    ),
    # SXM. NVIDIA's H200 page as quoted: with sparsity 3,958 TFLOP/s fp8 and 1,979 fp16, half of each dense.
    "H200": Accelerator({"fp16": 989.5e12, "fp8": 1979e12}, 4.8e12, 141e9, "https://www.morphllm.com/nvidia-h200"),
    # HGX at 1,000 W, dense. 192 GB on the package; pages on DGX and HGX systems give 180 GB, which is taken.
    "B200": Accelerator(
        {"fp16": 2250e12, "fp8": 4500e12, "fp4": 9000e12},
        8.0e12,
        180e9,
        "https://glennklockwood.com/garden/processors/B200; memory: https://verda.com/blog/gb300-nvl72-architecture",
        {"memory_bytes_per_s": "8 TB/s is the most; another page gives 7.7 TB/s"},
    ),
    # One of the 72 GPUs of an NVL72 at 1,200 W, dense; memory is the rack's 13.4 TB over 72. The rack's 720 PFLOP/s fp8
    # with sparsity are 5,000 TFLOP/s dense a GPU; one page gives 4,500.
    "GB200": Accelerator(
        {"fp16": 2500e12, "fp8": 5000e12, "fp4": 10000e12},
        8.0e12,
        186e9,
        "https://glennklockwood.com/garden/processors/B200; memory and fp8: "
        "https://aiwiki.ai/wiki/nvidia_gb200_nvl72/raw",
        {"memory_bytes": "the rack's 13.4 TB over 72"},
    ),
    # Dense.
    "MI300X": Accelerator(
        {"fp16": 1307.4e12, "fp8": 2614.9e12},
        5.3e12,
        192e9,
        "https://raw.githubusercontent.com/alpharomercoma/MI300X-vs-H200/6077fdc7bfc215171c33435b7cd76ca4c5f2b236/"
        "METHODOLOGY.md",
    ),
    # Dense: 8,192 fp8 operations a clock in each of 256 units at 2.4 GHz; fp16 half of it, fp4 twice, which is half of
    # the 20.1 PFLOP/s given with sparsity.
    "MI355X": Accelerator(
        {"fp16": 2516.6e12, "fp8": 5033.2e12, "fp4": 10066.3e12},
        8.0e12,
        288e9,
        "https://aiwiki.ai/wiki/amd_instinct_mi355x; rates: https://www.world-today-news.com/?p=7253162 and "
        "https://www.svethardware.cz/amd-uvadi-akceleratory-instinct-mi350x-a-mi355x-s-288gb-pameti-hbm3e/61870",
        {"fp16": "half of fp8, by the same clock"},
    ),
    # NVIDIA announced 30 PFLOP/s NVFP4 and 128 GB of GDDR7, and neither other rates nor a bandwidth.
    "RUBIN CPX": Accelerator(
        {"fp4": 30000e12},
        None,
        128e9,
        "https://www.hackster.io/news/nvidia-unveils-the-30-petaflop-rubin-cpx-for-million-token-scale-context-windows-"
        "89c894104872; memory: https://infinityxverse.com/nvidia-rubin-cpx-gpu-massive-context-inference",
        {"fp4": "announced without saying whether dense; one page says 20 PFLOP/s dense, 30 with sparsity"},
    ),
    # The first chip, 14 nm: on-chip memory only, so that a model takes hundreds of them.
    "GROQ LPU": Accelerator(
        {"fp16": 188e12, "int8": 750e12}, 80e12, 230e6, "https://techpowerup.com/news-tags/Processor?page=3"
    ),
}

LEAST_BYTES_PER_PARAMETER = 0.5
"""No weight is kept in less than four bits."""


def accelerator_name(hardware: str) -> str | None:
    """The accelerator that a hardware name means; None where it is not in the table, or not one of it.

    >>> accelerator_name("h200-sxm"), accelerator_name("NVIDIA Rubin-CPX")
    ('H200', 'RUBIN CPX')
    >>> accelerator_name("GH200"), accelerator_name("H20x2"), accelerator_name("H20 or H200")
    (None, None, None)
    """
    words = " ".join("".join(ch if ch.isalnum() else " " for ch in hardware.upper()).split())
    known = [name for name in ACCELERATORS if f" {name} " in f" {words} "]
    return known[0] if len(known) == 1 else None


def accelerator(hardware: str) -> Accelerator | None:
    """The accelerator that a hardware name means, as ``accelerator_name`` finds it.

    >>> accelerator("h200-sxm") is ACCELERATORS["H200"], accelerator("H20x2")
    (True, None)
    """
    name = accelerator_name(hardware)
    return ACCELERATORS[name] if name else None


def least_prefill_s(gpus: int, peak: Accelerator, active_parameters: float, length_tokens: float) -> float:
    """Seconds that the products with the weights take at least: two operations a parameter and token, at the peak.

    >>> least_prefill_s(8, ACCELERATORS["H200"], 32e9, 131072)
    0.529...
    """
    return 2.0 * active_parameters * length_tokens / (gpus * peak.flops_per_s)


def least_reading_s(gpus: int, peak: Accelerator, active_parameters: float) -> float:
    """Seconds that reading every active weight once takes at least, at the memory's peak and four bits a weight.

    Zero where the memory's peak is not public.
    """
    if peak.memory_bytes_per_s is None:
        return 0.0
    return LEAST_BYTES_PER_PARAMETER * active_parameters / (gpus * peak.memory_bytes_per_s)
