# SPDX-License-Identifier: Apache-2.0
"""The drafter that runs next to the target at a verifier: a model, or the target's own head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrider.core.errors import ConfigError
from outrider.core.ports import DraftHead, LanguageModel
from outrider.decoding.tuning import DEFAULT_TUNING
from outrider.runtime.common.paths import check_model, model_folder

OWN_HEAD = "head"
"""Names the target's own draft head in place of a draft model."""


@dataclass(frozen=True)
class CloudDrafts:
    """The verifier's drafter, if any: `model` or `head`. `apart`: the model is on a device of its own."""

    model: LanguageModel | None = None
    apart: bool = False
    head: DraftHead | None = None

    def __str__(self) -> str:
        drafter = self.model or self.head
        return "" if drafter is None else f", drafting by {drafter.name}"


NO_DRAFTS = CloudDrafts()


def check_cloud_draft(name: str, device: str = "", constrained: bool = False) -> None:
    """Raise ConfigError for a draft that does not exist, or does not fit the other options."""
    if name != OWN_HEAD:
        if name:
            check_model(name)
        return
    if device:
        raise ConfigError("a draft head runs where its target does: name no device for it")
    if constrained:
        raise ConfigError(
            "a draft head reads its target's logits, which a constraint hides: name a draft model instead"
        )


def load_cloud_drafts(
    name: str, device: str, target: LanguageModel, folder: Path, load: Callable[..., LanguageModel]
) -> CloudDrafts:
    """Returns the drafter for the target in `folder`.

    `load` loads a model. With a `device`, its `device` and `sessions` are overridden. Raises ModelError if
    the target has no head.
    """
    if not name:
        return NO_DRAFTS
    if name == OWN_HEAD:
        from outrider.models import QwenModel, load_head  # takes seconds to import

        assert isinstance(target, QwenModel)

        return CloudDrafts(head=load_head(folder, target))
    apart = {"device": device, "sessions": DEFAULT_TUNING.ahead_positions} if device else {}
    return CloudDrafts(load(model_folder(name), role="draft", **apart), bool(device))
