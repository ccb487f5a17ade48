"""The resources of replicas, and the checks before Ray starts. None of it needs Ray."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from outrider.core.errors import ConfigError, ModelError
from outrider.models.footprint import footprint
from outrider.runtime.common.ports import free_port
from outrider.runtime.wiring.decoders import serve
from outrider.runtime.wiring.replicas import actor_options, check_gpus, check_replicas, words_of

FAILED = """The deployment failed to start 2 times in a row. Error:
ray::ServeReplica.initialize_and_get_metadata() (pid=7)
  File "/usr/lib/python3.11/concurrent/futures/_base.py", line 449, in result
    return self.__get_result()
RuntimeError: Traceback (most recent call last):
  File "replicas.py", line 56, in __init__
    service = VerifierService(make_model(), limits)
              ^^^^^^^^^^^^
outrider.core.errors.ModelError: /models/target is no folder
"""


@pytest.fixture
def target(tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a small model, on a machine that is not part of a cluster."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return tiny_model_folder / "target"


def test_a_replica_has_a_gpu_of_its_own_where_its_model_is_on_one() -> None:
    assert actor_options("cpu") == {"num_cpus": 0.1}
    assert actor_options("cuda") == {"num_cpus": 0.1, "num_gpus": 1}
    assert actor_options("cuda:0") == actor_options("cuda")


def test_more_replicas_than_gpus_are_refused() -> None:
    check_gpus("cuda", 2, {"CPU": 16.0, "GPU": 2.0})
    check_gpus("cpu", 2, {"CPU": 16.0})
    with pytest.raises(ConfigError, match="3 replicas on cuda need a GPU each, and Ray has 2"):
        check_gpus("cuda", 3, {"CPU": 16.0, "GPU": 2.0})


def test_the_reason_is_what_was_raised_last() -> None:
    assert words_of(FAILED) == "ModelError: /models/target is no folder"
    assert words_of("no room\n") == "no room"


def test_a_sound_model_passes(target: Path) -> None:
    check_replicas(target, 2, sessions=3)


def test_replicas_of_another_architecture_are_refused_before_ray_starts(
    target: Path, tmp_path: Path, signals: None
) -> None:
    folder = tmp_path / "llama"
    shutil.copytree(target, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    with pytest.raises(ModelError, match="model_type 'llama'"):
        serve(f"tcp://127.0.0.1:{free_port()}", folder, replicas=2)


def test_the_memory_of_one_machine_must_do_for_all_replicas(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = footprint.bytes_needed([target / "model.safetensors"], "fp32").loading
    monkeypatch.setattr(footprint, "available_bytes", lambda: 2.5 * needed)
    check_replicas(target, 2, max_length=128)
    with pytest.raises(ModelError, match="GB to load as fp32 3 times, and"):
        check_replicas(target, 3, max_length=128)


def test_a_device_that_is_not_there_is_refused_but_on_a_cluster(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ConfigError, match="device=cuda: this torch finds no CUDA device"):
        check_replicas(target, 2, device="cuda")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    check_replicas(target, 2, device="cuda")
