"""onnxruntime's execution providers by the names that configuration uses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime

from outrider.core.errors import ConfigError, ModelError
from outrider.core.model_options import PROVIDERS
from outrider.models.graphs.allocation import map_weights_apart


@dataclass(frozen=True)
class Provider:
    """`packs`: it runs onnxruntime's own packed product, else weights are given in the standard's form."""

    name: str
    package: str
    packs: bool


_PROVIDERS = {
    "cpu": Provider("CPUExecutionProvider", "onnxruntime", True),
    "cuda": Provider("CUDAExecutionProvider", "onnxruntime-gpu", True),
    "tensorrt": Provider("TensorrtExecutionProvider", "onnxruntime-gpu", False),
    "openvino": Provider("OpenVINOExecutionProvider", "onnxruntime-openvino", False),
    "qnn": Provider("QNNExecutionProvider", "onnxruntime-qnn", False),
}


def find_provider(name: str) -> Provider:
    """Raises ConfigError for one that is unknown or that this onnxruntime does not have."""
    provider = _PROVIDERS.get(name)
    if provider is None:
        raise ConfigError(f"provider={name!r} must be one of {', '.join(PROVIDERS)}")
    available = onnxruntime.get_available_providers()
    if provider.name not in available:
        raise ConfigError(
            f"provider={name}: this onnxruntime has only {', '.join(available)}: "
            f"pip install {provider.package} in its place, or use provider=cpu"
        )
    return provider


def open_graph(path: Path, provider: Provider, threads: int) -> Any:
    """A session on a graph file. What a provider cannot run goes to the CPU. Raises ModelError."""
    map_weights_apart()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False
    # Where the CPU fuses weights of the standard's form, rows are not to be rounded to integers as well.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    names = list(dict.fromkeys((provider.name, "CPUExecutionProvider")))
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=names)
    except Exception as error:  # the library has its own exception for each of its failures
        raise ModelError(f"{path} cannot be loaded ({error}): delete its folder to build it again") from error
