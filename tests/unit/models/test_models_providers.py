"""Execution providers: what the installed ones compute, and what onnxruntime is asked for each of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from support.tiny_models import TinySize, build_tiny_model, random_prompt

from outrider.core.errors import ConfigError, ModelError
from outrider.core.model_options import PROVIDERS, Precision
from outrider.models import QwenModel, load_exact_model, load_graph_model
from outrider.models.onnx import providers
from outrider.models.onnx.model import GraphModel

GENERATED = 16
HALF_PRECISION = ("qnn",)
"""Providers of which some units multiply in 16 bits only."""
SIMULATED = {"htp_arch": "73", "soc_model": "43"}
"""A chip that QNN's library for other processors simulates."""

pytestmark = pytest.mark.usefixtures("graph_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("providers") / "draft", TinySize(hidden=64, layers=2))


def is_here(name: str) -> bool:
    try:
        providers.find_provider(name)
    except ConfigError:
        return False
    return True


def rows_of(model: QwenModel | GraphModel, token_ids: list[int]) -> torch.Tensor:
    session = model.open_session()
    first = session.prefill(random_prompt(1))
    return torch.stack([first, *[session.forward([token])[0] for token in token_ids]])


@pytest.mark.lengthy
@pytest.mark.parametrize("precision", ["fp32", "int8", "int4"])
@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_computes_what_the_eager_twin_does(
    name: str, precision: Precision, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_here(name):
        pytest.skip(f"this onnxruntime has no {name}")
    if name == "qnn":
        known = providers._PROVIDERS["qnn"]
        npus = [one for one in providers._devices(known) if one.device.type.name == "NPU"]
        given = known if npus else replace(known, options={**known.options, **SIMULATED})
        monkeypatch.setitem(providers._PROVIDERS, "qnn", given)
    graphs, exact = (
        load_graph_model(folder, precision=precision, provider=name),
        load_exact_model(folder, precision),
    )
    exact.vision = graphs.vision
    token_ids: list[int] = []
    while len(token_ids) < GENERATED:
        token_ids.append(int(rows_of(exact, token_ids)[-1].argmax()))
    rows, wanted = rows_of(graphs, token_ids), rows_of(exact, token_ids)
    off = 0.1 * wanted.std() if name in HALF_PRECISION else 1e-3
    assert (rows - wanted).abs().max() < off
    best = wanted.topk(2).values
    sure = best[:, 0] - best[:, 1] > 2 * off
    assert sure.any()
    assert torch.equal(rows.argmax(-1)[sure], wanted.argmax(-1)[sure])


class Opened:
    """Stands in for onnxruntime's session, and records what it was opened with."""

    calls: list[tuple[str, dict[str, Any]]]

    def __init__(self, path: str, options: Any, providers: Any = ()) -> None:
        self.names, self.options = dict(providers), options
        type(self).calls.append((path, self.names))

    def get_providers(self) -> list[str]:
        return list(self.names)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cpu", {}),
        ("cuda", {"use_tf32": "0"}),
        ("tensorrt", {"trt_engine_cache_enable": "1", "trt_engine_cache_path": "/graphs/engines"}),
        ("openvino", {"device_type": "CPU", "precision": "FP32", "num_of_threads": "3"}),
        ("qnn", {"backend_type": "htp"}),
    ],
)
def test_each_provider_gets_the_options_that_it_needs(
    name: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Opened.calls = []
    monkeypatch.setattr(providers.onnxruntime, "InferenceSession", Opened)
    monkeypatch.setattr(providers.onnxruntime, "get_ep_devices", lambda: [], raising=False)
    provider = providers._PROVIDERS[name]
    session = providers.open_graph(Path("/graphs/head.onnx"), provider, 3)
    for entry, value in provider.settings.items():
        assert session.options.get_session_config_entry(entry) == value
    assert Opened.calls == [("/graphs/head.onnx", {provider.name: options} | {"CPUExecutionProvider": {}})]


def test_a_plugin_is_registered_once_and_given_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `onnxruntime-qnn` from version 2 on."""
    plugin, known, registered = ModuleType("onnxruntime_qnn"), ["CPUExecutionProvider"], []
    plugin.get_library_path = lambda: "qnn.so"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime_qnn", plugin)
    runtime = providers.onnxruntime

    def register(name: str, path: str) -> None:
        registered.append((name, path))
        known.append(name)

    kinds = runtime.OrtHardwareDeviceType
    devices = [
        SimpleNamespace(ep_name=name, device=SimpleNamespace(type=kind))
        for name, kind in [
            ("CPUExecutionProvider", kinds.CPU),
            ("QNNExecutionProvider", kinds.CPU),
            ("QNNExecutionProvider", kinds.NPU),
        ]
    ]
    monkeypatch.setattr(runtime, "get_available_providers", lambda: known)
    monkeypatch.setattr(runtime, "register_execution_provider_library", register)
    monkeypatch.setattr(runtime, "get_ep_devices", lambda: devices)
    for _ in range(2):
        provider = providers.find_provider("qnn")
    assert registered == [("QNNExecutionProvider", "qnn.so")]
    assert providers._devices(provider) == devices[2:]
    assert providers._devices(providers.find_provider("cpu")) == []


def test_a_plugin_that_cannot_be_loaded_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = ModuleType("onnxruntime_qnn")
    plugin.get_library_path = lambda: "/no/such/qnn.so"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime_qnn", plugin)
    monkeypatch.setattr(providers.onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ConfigError, match=r"QNNExecutionProvider does not start here \(.*qnn\.so"):
        providers.find_provider("qnn")


def test_a_plugin_without_its_libraries_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnxruntime_qnn.py").write_text("raise OSError('libfoo.so: cannot open shared object file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "onnxruntime_qnn", raising=False)
    monkeypatch.setattr(providers.onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ConfigError, match=r"QNNExecutionProvider does not start here \(libfoo\.so"):
        providers.find_provider("qnn")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_refuses_a_sound_graph_is_to_blame_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Opened):
        def __init__(self, path: str, options: Any, providers: Any = ()) -> None:
            super().__init__(path, options, providers)
            if next(iter(self.names)) != "CPUExecutionProvider":
                raise Exception("no such chip")

    Refusing.calls = []
    monkeypatch.setattr(providers.onnxruntime, "InferenceSession", Refusing)
    path, openvino = Path("/graphs/head.onnx"), providers._PROVIDERS["openvino"]
    with pytest.raises(
        ConfigError, match=r"does not start here \(no such chip\): install.*or use provider=cpu"
    ):
        providers.open_graph(path, openvino, 1)
    monkeypatch.undo()
    with pytest.raises(ModelError, match=r"head.onnx cannot be loaded"):
        providers.open_graph(path, openvino, 1)
