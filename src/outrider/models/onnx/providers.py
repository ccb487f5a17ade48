# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's execution providers, by their names in configurations."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxruntime

from outrider.core.errors import ConfigError, ModelError, OutOfMemoryError
from outrider.core.model_options import PROVIDERS
from outrider.models.backbone.out_of_memory import says_out_of_memory
from outrider.models.onnx.allocation import map_weights_apart


@dataclass(frozen=True)
class Provider:
    """`packs`: whether it runs onnxruntime's packed product; otherwise weights have the standard's form.

    `options` are the provider's; {threads} and {folder}, that of the graphs, are filled in. `settings` are
    the session's. `plugin`: the module that adds the provider to any onnxruntime, if it is not built in.
    """

    name: str
    package: str
    packs: bool
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    plugin: str = ""


_ENGINES = {"trt_engine_cache_enable": "1", "trt_engine_cache_path": "{folder}/engines"}
"""Engines are cached: TensorRT builds one for minutes, and graphs are opened again for each prompt."""
_WHOLE_WEIGHTS = {"session.disable_quant_qdq": "1"}
"""QNN leaves 4- and 8-bit weights to the CPU. With this they are dequantized once, not in every run."""
_FLOAT32 = {"device_type": "CPU", "precision": "FP32", "num_of_threads": "{threads}"}
_PROVIDERS = {
    "cpu": Provider("CPUExecutionProvider", "onnxruntime", True),
    "cuda": Provider("CUDAExecutionProvider", "onnxruntime-gpu", True, {"use_tf32": "0"}),
    "tensorrt": Provider("TensorrtExecutionProvider", "onnxruntime-gpu", False, _ENGINES),
    "openvino": Provider("OpenVINOExecutionProvider", "onnxruntime-openvino", False, _FLOAT32),
    "qnn": Provider(
        "QNNExecutionProvider",
        "onnxruntime-qnn",
        False,
        {"backend_type": "htp"},
        _WHOLE_WEIGHTS,
        "onnxruntime_qnn",
    ),
}


def find_provider(name: str) -> Provider:
    """Return a provider. Raises ConfigError if it is unknown or this onnxruntime lacks it."""
    provider = _PROVIDERS.get(name)
    if provider is None:
        raise ConfigError(f"provider={name!r} must be one of {', '.join(PROVIDERS)}")
    if provider.plugin:
        _register(provider)
    available = onnxruntime.get_available_providers()
    if provider.name not in available:
        raise ConfigError(
            f"provider={name}: this onnxruntime has only {', '.join(available)}: pip install "
            f"{provider.package} {'beside it' if provider.plugin else 'in its place'}, or use provider=cpu"
        )
    return provider


def _register(provider: Provider) -> None:
    """Register a plugin if its package is installed and this onnxruntime does not have it yet."""
    if provider.name in onnxruntime.get_available_providers():
        return
    try:
        plugin = importlib.import_module(provider.plugin)
        onnxruntime.register_execution_provider_library(provider.name, plugin.get_library_path())
    except ModuleNotFoundError:
        return
    except Exception as error:  # the library raises its own exception for each failure
        raise _no_start(provider, error) from error


def open_graph(path: Path, provider: Provider, threads: int) -> Any:
    """Open a session on a graph file. What a provider cannot run goes to the CPU.

    Raises ConfigError for a provider that does not start, for which onnxruntime would use the CPU;
    OutOfMemoryError; ModelError for a damaged file.
    """
    try:
        session = _open(path, provider, threads)
    except Exception as error:  # as above
        if says_out_of_memory(error):
            raise _no_room(f"load {path.name}") from None
        if _opens_on_the_cpu(path, provider, threads):
            raise _no_start(provider, error) from error
        raise damaged(path, error) from error
    if provider.name not in session.get_providers():
        raise _no_start(provider)
    return session


def _open(path: Path, provider: Provider, threads: int) -> Any:
    map_weights_apart()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False
    # If the CPU fuses weights of the standard's form, rows must not be rounded to integers too.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    for name, value in provider.settings.items():
        options.add_session_config_entry(name, value)
    places = {"threads": threads, "folder": path.parent}
    own = {name: value.format(**places) for name, value in provider.options.items()}
    devices = _devices(provider)
    if devices:
        options.add_provider_for_devices(devices, own)
        return onnxruntime.InferenceSession(str(path), options)
    given = {provider.name: own} | {"CPUExecutionProvider": {}}
    return onnxruntime.InferenceSession(str(path), options, providers=list(given.items()))


def _devices(provider: Provider) -> list[Any]:
    """Return the devices of a plugin: one NPU if there is any, else all."""
    if not provider.plugin:
        return []
    devices = [one for one in onnxruntime.get_ep_devices() if one.ep_name == provider.name]
    npus = [one for one in devices if one.device.type == onnxruntime.OrtHardwareDeviceType.NPU]
    return npus[:1] or devices


def _opens_on_the_cpu(path: Path, provider: Provider, threads: int) -> bool:
    """Return whether the CPU can open the file, so that the provider is at fault."""
    cpu = _PROVIDERS["cpu"]
    if provider.name == cpu.name:
        return False
    try:
        return _open(path, cpu, threads) is not None
    except Exception:  # as above
        return False


def _no_start(provider: Provider, error: Exception | None = None) -> ConfigError:
    why = "" if error is None else f" ({_short(error)})"
    return ConfigError(
        f"{provider.name} does not start here{why}: install the libraries that {provider.package} needs, "
        "or use provider=cpu"
    )


def run_graph(session: Any, feeds: dict[str, Any]) -> list[Any]:
    """Return all outputs of a graph. Raises OutOfMemoryError, and ModelError for any other failure."""
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
    """Return the error for a file of graphs that is missing or damaged."""
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
