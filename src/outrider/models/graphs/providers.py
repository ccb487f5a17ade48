"""onnxruntime's execution providers by the names that configuration uses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime

from outrider.core.errors import ConfigError, ModelError, OutOfMemoryError
from outrider.core.model_options import PROVIDERS
from outrider.models.graphs.allocation import map_weights_apart
from outrider.models.out_of_memory import says_out_of_memory


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
    """A session on a graph file. What a provider cannot run goes to the CPU.

    Raises ConfigError for a provider that does not start, for which onnxruntime would take the CPU,
    OutOfMemoryError, ModelError for a damaged file.
    """
    map_weights_apart()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False
    # Where the CPU fuses weights of the standard's form, rows are not to be rounded to integers as well.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    names = list(dict.fromkeys((provider.name, "CPUExecutionProvider")))
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=names)
    except Exception as error:  # the library has its own exception for each of its failures
        if says_out_of_memory(error):
            raise _no_room(f"load {path.name}") from None
        raise damaged(path, error) from error
    if provider.name not in session.get_providers():
        raise ConfigError(
            f"{provider.name} does not start here: install the libraries that {provider.package} needs, "
            "or use provider=cpu"
        )
    return session


def run_graph(session: Any, feeds: dict[str, Any]) -> list[Any]:
    """All outputs of a graph. Raises OutOfMemoryError, ModelError for what else a provider cannot do."""
    try:
        outputs: list[Any] = session.run(None, feeds)
    except Exception as error:  # as above
        if says_out_of_memory(error):
            raise _no_room("run") from None
        raise ModelError(
            f"a static graph failed ({_short(error)}): use another provider, or runtime=eager"
        ) from error
    return outputs


def damaged(path: Path, error: Exception) -> ModelError:
    """Of a file in a folder of graphs that is missing or not what it was."""
    return ModelError(
        f"{path} cannot be loaded ({_short(error)}): delete the folder {path.parent} to build it again"
    )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _no_room(what: str) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"static graphs have not enough memory to {what}: close other programs, or choose a smaller "
        "precision, max_length or checkpoint"
    )
