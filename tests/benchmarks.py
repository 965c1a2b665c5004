"""Small files in the formats of benchmarks: the fields that each tool writes, with figures made up by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from prfaas_opt.import_api import Import, import_measured

Record = dict[str, Any]

CONFIG: Record = {
    "model_type": "llama",
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 8192,
    "max_position_embeddings": 131072,
}
KV_BYTES_PER_TOKEN = 2 * 80 * 8 * 128 * 2


def write(name: str, content: Any, *more: Any) -> Path:
    """A file: bytes or text as they are, else one line of JSON for each object."""
    path = Path(name)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        texts = [c if isinstance(c, str) else json.dumps(c) for c in (content, *more)]
        path.write_bytes("\n".join(texts).encode())
    return path


def imported(*files: Path, gpus: int = 2, **options: Any) -> Import:
    return import_measured(files, "house-70b", "H200", gpus, **({"kv_from": "config.json"} | options))


def points(answer: Import) -> dict[int, float]:
    return {point.length_tokens: point.latency_s for point in answer.prefill}


def steps(answer: Import) -> dict[tuple[int, int | None], float]:
    return {(step.batch, step.context_tokens): step.step_s for step in answer.decode}


def vllm_serve(length: int = 1000, ttft_ms: float = 100.0, **changes: Any) -> Record:
    """Ten requests one at a time, of 11 output tokens 20 ms apart: 0.3 s each where TTFT is 100 ms."""
    latency_s = ttft_ms / 1000 + 10 * 0.020
    record: Record = {
        "date": "20260102-030405",
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": "house-70b",
        "tokenizer_id": "house-70b",
        "num_prompts": 10,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 1,
        "duration": 10 * latency_s,
        "completed": 10,
        "failed": 0,
        "total_input_tokens": 10 * length,
        "total_output_tokens": 110,
        "mean_ttft_ms": ttft_ms,
        "median_ttft_ms": ttft_ms,
        "mean_tpot_ms": 20.0,
        "median_tpot_ms": 20.0,
        "mean_e2el_ms": latency_s * 1000,
    }
    return record | changes


def vllm_latency(seconds: float = 0.2, **changes: Any) -> Record:
    times = [seconds * 0.99, seconds, seconds * 1.01]
    return {"avg_latency": seconds, "latencies": times, "percentiles": {"50": seconds}} | changes


def sglang_serving(length: int = 1000, ttft_ms: float = 100.0, **changes: Any) -> Record:
    latency_s = ttft_ms / 1000 + 10 * 0.020
    record: Record = {
        "tag": None,
        "backend": "sglang",
        "dataset_name": "random-ids",
        "request_rate": float("inf"),
        "max_concurrency": 1,
        "random_input_len": length,
        "random_output_len": 11,
        "random_range_ratio": 1.0,
        "server_info": {},
        "duration": 10 * latency_s,
        "completed": 10,
        "total_input_tokens": 10 * length,
        "total_output_tokens": 110,
        "total_output_tokens_retokenized": 110,
        "mean_e2e_latency_ms": latency_s * 1000,
        "mean_ttft_ms": ttft_ms,
        "median_ttft_ms": ttft_ms,
        "median_tpot_ms": 20.0,
        "accept_length": None,
    }
    return record | changes


def one_batch(batch: int = 1, length: int = 1000, seconds: float = 0.1, step_s: float = 0.02, **changes: Any) -> Record:
    record: Record = {
        "run_name": "default",
        "batch_size": batch,
        "input_len": length,
        "output_len": 100,
        "prefill_latency": seconds,
        "prefill_throughput": batch * length / seconds,
        "median_decode_latency": step_s,
        "median_decode_throughput": batch / step_s,
        "total_latency": seconds + 99 * step_s,
    }
    return record | changes


def _metric(unit: str, value: float, **others: float) -> Record:
    return {"unit": unit, "avg": value, "p50": value, "min": value, "max": value} | others


def _nvidia(length: int, ttft_ms: float) -> Record:
    latency_ms = ttft_ms + 10 * 20.0
    return {
        "request_throughput": {"unit": "requests/sec", "avg": 1000 / latency_ms},
        "request_latency": _metric("ms", latency_ms),
        "request_count": {"unit": "requests", "avg": 10.0},
        "time_to_first_token": _metric("ms", ttft_ms),
        "inter_token_latency": _metric("ms", 20.0),
        "input_sequence_length": _metric("tokens", float(length)),
        "output_sequence_length": _metric("tokens", 11.0),
    }


def aiperf(length: int = 1000, ttft_ms: float = 100.0, concurrency: int = 1, **changes: Any) -> Record:
    phase = {"name": "profiling", "kind": "profiling", "type": "concurrency", "concurrency": concurrency}
    settings = {"models": {"items": [{"name": "house-70b"}]}, "phases": [phase]}
    head = {"schema_version": "1.4", "aiperf_version": "0.13.0", "input_config": settings}
    return head | _nvidia(length, ttft_ms) | {"was_cancelled": False, "error_summary": []} | changes


def genai_perf(length: int = 1000, ttft_ms: float = 100.0, **changes: Any) -> Record:
    settings = {"model_names": ["house-70b"], "perf_analyzer": {"stimulus": {"concurrency": 1}}}
    return _nvidia(length, ttft_ms) | {"input_config": settings} | changes


def aiperf_csv(length: int = 1000, ttft_ms: float = 100.0, most: int = 1) -> str:
    latency = ttft_ms + 200
    return (
        "Metric,avg,min,max,sum,p1,p50,p99,std\n"
        f"Effective Concurrency,0.98,0.00,{most}.00,,,,,\n"
        f"Input Sequence Length (tokens),{length},{length},{length},{length},{length},{length},{length},0\n"
        "Inter Token Latency (ms),20,20,20,200,20,20,20,0\n"
        "Output Sequence Length (tokens),11,11,11,110,11,11,11,0\n"
        f"Request Latency (ms),{latency},{latency},{latency},1,1,{latency},{latency},0\n"
        f"Time to First Token (ms),{ttft_ms},{ttft_ms},{ttft_ms},1,1,{ttft_ms},{ttft_ms},0\n"
        "\n"
        "Metric,Value\n"
        "Request Count,10.00\n"
        f"Request Throughput (requests/sec),{1000 / latency}\n"
        "\n\n"
        "Endpoint,GPU_Index,GPU_Name,Metric,avg\n"
        "localhost,0,H200,GPU Power (W),400\n"
    )


def genai_perf_csv(length: str = "1000", ttft_ms: float = 100.0, throughput: float | None = None) -> str:
    latency = ttft_ms + 200
    rate = 1000 / latency if throughput is None else throughput
    lines = [
        "Metric,avg,min,max,p99,p50,p1",
        f'Time To First Token (ms),{ttft_ms},{ttft_ms},{ttft_ms},{ttft_ms},{ttft_ms},"{ttft_ms:,.2f}"',
        f"Request Latency (ms),{latency},{latency},{latency},{latency},{latency},{latency}",
        "Inter Token Latency (ms),20,20,20,20,20,20",
        f'Input Sequence Length (tokens),"{length}","{length}","{length}","{length}","{length}","{length}"',
        "Output Sequence Length (tokens),11,11,11,11,11,11",
        "",
        "Metric,Value",
        f"Request Throughput (per sec),{rate}",
        "Request Count (count),10.00",
    ]
    return "\r\n".join(lines) + "\r\n"


def guidellm_benchmark(length: int = 1000, ttft_ms: float = 100.0, **changes: Any) -> Record:
    latency_s = ttft_ms / 1000 + 0.2

    def summary(value: float) -> Record:
        return {"successful": {"mean": value, "median": value, "min": value, "max": value, "std_dev": 0.0}}

    record: Record = {
        "config": {"strategy": {"type_": "synchronous"}, "backend": {"model": "house-70b"}},
        "duration": 10 * latency_s,
        "metrics": {
            "request_totals": {"successful": 10, "errored": 0, "incomplete": 0, "total": 10},
            "prompt_token_count": summary(float(length)),
            "output_token_count": summary(11.0),
            "time_to_first_token_ms": summary(ttft_ms),
            "inter_token_latency_ms": summary(20.0),
            "request_latency": summary(latency_s),
        },
    }
    return record | changes


def guidellm(*benchmarks: Record) -> Record:
    found = benchmarks or (guidellm_benchmark(), guidellm_benchmark(4000, 400.0))
    return {"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "config": {}, "benchmarks": list(found)}


def dynamo_prefill(**changes: Any) -> Record:
    """Two GPUs an instance: 1000 tokens in 0.1 s are 5000 tokens/s of each."""
    record: Record = {
        "prefill_isl": [1000, 4000],
        "prefill_ttft": [100.0, 400.0],
        "prefill_thpt_per_gpu": [5000.0, 5000.0],
    }
    return record | changes


def dynamo_decode(**changes: Any) -> Record:
    """Batches 1 and 10 at contexts of 1000 and 2000 tokens, of 100,000 that fit; two GPUs."""
    record: Record = {
        "x_kv_usage": [0.01, 0.1, 0.02, 0.2],
        "y_context_length": [1000.0, 1000.0, 2000.0, 2000.0],
        "z_itl": [10.0, 20.0, 11.0, 30.0],
        "z_thpt_per_gpu": [50.0, 250.0, 45.45, 166.7],
        "max_kv_tokens": [100_000],
    }
    return record | changes


def npz(arrays: Record) -> bytes:
    packed = io.BytesIO()
    columns: dict[str, Any] = {name: np.array(values) for name, values in arrays.items()}
    np.savez(packed, **columns)
    return packed.getvalue()


PLAIN_CSV = "length_tokens,prefill_ms\n1K,100\n4000,400\n"

MINIMAL: dict[str, tuple[str, str | bytes]] = {
    "vLLM bench serve": ("serve.json", json.dumps(vllm_serve())),
    "vLLM bench latency": ("latency-isl1000-osl1-bs1.json", json.dumps(vllm_latency())),
    "SGLang bench_serving": ("serving.jsonl", json.dumps(sglang_serving())),
    "SGLang bench_one_batch": ("result.jsonl", json.dumps(one_batch())),
    "AIPerf": ("profile_export_aiperf.json", json.dumps(aiperf())),
    "AIPerf CSV": ("profile_export_aiperf.csv", aiperf_csv()),
    "GenAI-Perf": ("profile_export_genai_perf.json", json.dumps(genai_perf())),
    "GenAI-Perf CSV": ("profile_export_genai_perf.csv", genai_perf_csv()),
    "GuideLLM": ("benchmarks.json", json.dumps(guidellm())),
    "Dynamo SLA profiler": ("raw_data.npz", npz(dynamo_prefill())),
    "Dynamo SLA profiler JSON": ("decode_raw_data.json", json.dumps(dynamo_decode(max_kv_tokens=100_000))),
    "CSV": ("mine.csv", PLAIN_CSV),
}
"""A file of each format, under its name, with a word behind it where the format has two forms."""
