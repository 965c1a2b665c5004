"""Peaks of accelerators, from their vendors' public data sheets: what no prefill can be faster than."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """One GPU.

    Attributes:
        flops_per_s: the largest dense rate of its matrix units, in any number format they multiply.
        format: that format.
        memory_bytes_per_s: peak of its memory.
    """

    flops_per_s: float
    format: str
    memory_bytes_per_s: float


ACCELERATORS = {
    # NVIDIA H20 data sheet: 296 TFLOP/s FP8 and 148 BF16, both dense; 4.0 TB/s.
    "H20": Accelerator(296e12, "fp8", 4.0e12),
    # NVIDIA H100 data sheet, SXM: 3,958 TFLOP/s FP8 with sparsity, half of it dense; 3.35 TB/s.
    "H100": Accelerator(1979e12, "fp8", 3.35e12),
    # NVIDIA H200 data sheet, SXM: as H100; 4.8 TB/s.
    "H200": Accelerator(1979e12, "fp8", 4.8e12),
    # NVIDIA DGX B200 data sheet, one of eight GPUs: 144 PFLOP/s FP4 with sparsity, half of it dense; 64 TB/s.
    "B200": Accelerator(9000e12, "fp4", 8.0e12),
    # AMD Instinct MI300X data sheet: 2,614.9 TFLOP/s FP8 dense; 5.3 TB/s.
    "MI300X": Accelerator(2614.9e12, "fp8", 5.3e12),
}

LEAST_BYTES_PER_PARAMETER = 0.5
"""No weight is kept in less than four bits."""


def accelerator(hardware: str) -> Accelerator | None:
    """The accelerator that a hardware name means; None where its peak is not in the table.

    >>> accelerator("h200-sxm") is ACCELERATORS["H200"], accelerator("NVIDIA H20") is ACCELERATORS["H20"]
    (True, True)
    >>> accelerator("GB200"), accelerator("H20x2")
    (None, None)
    """
    words = "".join(ch if ch.isalnum() else " " for ch in hardware.upper()).split()
    known = [word for word in words if word in ACCELERATORS]
    return ACCELERATORS[known[0]] if len(known) == 1 else None


def least_prefill_s(gpus: int, peak: Accelerator, active_parameters: float, length_tokens: float) -> float:
    """Seconds that the products with the weights take at least: two operations a parameter and token, at the peak.

    >>> least_prefill_s(8, ACCELERATORS["H200"], 32e9, 131072)
    0.529...
    """
    return 2.0 * active_parameters * length_tokens / (gpus * peak.flops_per_s)


def least_reading_s(gpus: int, peak: Accelerator, active_parameters: float) -> float:
    """Seconds that reading every active weight once takes at least, at the memory's peak and four bits a weight."""
    return LEAST_BYTES_PER_PARAMETER * active_parameters / (gpus * peak.memory_bytes_per_s)
