"""What drafts on the target's side: a model, the target's own head, or nothing. A misfit is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.tiny_models import random_head

from outrider.cli import app
from outrider.core.errors import ConfigError, ModelError
from outrider.models import QwenModel, load_model
from outrider.models.backbone.draft_head import write_head
from outrider.runtime.common.cloud_drafts import (
    NO_DRAFTS,
    OWN_HEAD,
    check_cloud_draft,
    load_cloud_drafts,
)
from outrider.runtime.common.ports import free_port


@pytest.fixture
def folder(tiny_model_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model_folder, tmp_path / "models")


def test_nothing_a_model_or_the_targets_own_head(folder: Path) -> None:
    target = load_model(folder / "target")
    given = target, folder / "target", load_model
    assert load_cloud_drafts("", "", *given) is NO_DRAFTS and str(NO_DRAFTS) == ""
    model = load_cloud_drafts(str(folder / "draft"), "", *given)
    assert isinstance(model.model, QwenModel) and (model.head, model.apart) == (None, False)
    assert str(model) == f", drafting by {model.model.name}"
    assert load_cloud_drafts(str(folder / "draft"), "cpu", *given).apart
    with pytest.raises(ModelError, match="has no draft head"):
        load_cloud_drafts(OWN_HEAD, "", *given)
    write_head(folder / "target", random_head(target.text), target.text)
    own = load_cloud_drafts(OWN_HEAD, "", *given)
    assert own.model is None and str(own) == f", drafting by the head of {target.name}"


def test_what_does_not_go_with_a_head_is_refused() -> None:
    check_cloud_draft("")
    check_cloud_draft(OWN_HEAD)
    with pytest.raises(ConfigError, match="name no device for it"):
        check_cloud_draft(OWN_HEAD, device="cpu")
    with pytest.raises(ConfigError, match="name a draft model instead"):
        check_cloud_draft(OWN_HEAD, constrained=True)
    with pytest.raises(ConfigError, match="there is no model folder models/nowhere"):
        check_cloud_draft("models/nowhere")


@pytest.mark.parametrize("more", [["--draft-device", "cpu"], ["--constrained"]])
def test_the_command_refuses_it_before_anything_is_loaded(folder: Path, more: list[str]) -> None:
    (folder / "target" / "model.safetensors").unlink()
    at = ["--endpoint", f"tcp://127.0.0.1:{free_port()}"]
    command = ["verifier", "--model", str(folder / "target"), *at, "--draft-model", "head", *more]
    with pytest.raises(ConfigError, match="draft head"):
        app(command, standalone_mode=False)
