# SPDX-License-Identifier: Apache-2.0
"""Outrider: edge-cloud speculative decoding for language-conditioned robot navigation.

What programs may use; all else may change without notice. A name is imported when it is first used, so that
`import outrider` takes milliseconds and needs neither torch nor ROS.

Decoding     load_pair, load_model, local_decoder, connect_decoder, emulation_of, DecodingConfig,
             DecodeRequest, Decoded, Verified, Prompt, PromptContext, render_prompt
Drafters     Drafter, Continuation, register_drafter
Simulation   target_of, generate_home, open_simulator, run_episode, model_answerer, NavigatorSettings,
             EpisodeResult
Recordings   read_steps, replay_steps, RecordedStep
Interfaces   LanguageModel, TextDecoder, Robot
Errors       OutriderError, the base of every expected failure
"""

from __future__ import annotations

from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outrider.core.errors import OutriderError
    from outrider.core.language.prompt import PromptContext, render_prompt
    from outrider.core.ports import LanguageModel, Robot, TextDecoder
    from outrider.core.values import Decoded, DecodeRequest, Prompt, Verified
    from outrider.decoding.config import DecodingConfig
    from outrider.decoding.drafting.retrieval.continuation import Continuation, Drafter
    from outrider.decoding.drafting.retrieval.drafts import register_drafter
    from outrider.models.loading import load_model
    from outrider.navigation.goal.navigator import NavigatorSettings
    from outrider.runtime.common.links import emulation_of
    from outrider.runtime.datasets.held_out import load_pair
    from outrider.runtime.mission.episode import EpisodeResult, model_answerer, run_episode
    from outrider.runtime.reports.recording import RecordedStep, read_steps
    from outrider.runtime.reports.replay import replay_steps
    from outrider.runtime.wiring.decoders import connect_decoder, local_decoder
    from outrider.simulation.homes.home import generate_home
    from outrider.simulation.homes.vocabulary import target_of
    from outrider.simulation.simulator import open_simulator

__version__ = "0.1.0"

environ.update(ORT_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_TELEMETRY="1", RAY_USAGE_STATS_ENABLED="0")
"""Libraries that tell others how they are used are told not to: here, before any of them can be imported."""

_MODULES = {
    "Continuation": "outrider.decoding.drafting.retrieval.continuation",
    "DecodeRequest": "outrider.core.values",
    "Decoded": "outrider.core.values",
    "DecodingConfig": "outrider.decoding.config",
    "Drafter": "outrider.decoding.drafting.retrieval.continuation",
    "EpisodeResult": "outrider.runtime.mission.episode",
    "LanguageModel": "outrider.core.ports",
    "NavigatorSettings": "outrider.navigation.goal.navigator",
    "OutriderError": "outrider.core.errors",
    "Prompt": "outrider.core.values",
    "PromptContext": "outrider.core.language.prompt",
    "RecordedStep": "outrider.runtime.reports.recording",
    "Robot": "outrider.core.ports",
    "TextDecoder": "outrider.core.ports",
    "Verified": "outrider.core.values",
    "connect_decoder": "outrider.runtime.wiring.decoders",
    "emulation_of": "outrider.runtime.common.links",
    "generate_home": "outrider.simulation.homes.home",
    "load_model": "outrider.models.loading",
    "load_pair": "outrider.runtime.datasets.held_out",
    "local_decoder": "outrider.runtime.wiring.decoders",
    "model_answerer": "outrider.runtime.mission.episode",
    "open_simulator": "outrider.simulation.simulator",
    "read_steps": "outrider.runtime.reports.recording",
    "register_drafter": "outrider.decoding.drafting.retrieval.drafts",
    "render_prompt": "outrider.core.language.prompt",
    "replay_steps": "outrider.runtime.reports.replay",
    "run_episode": "outrider.runtime.mission.episode",
    "target_of": "outrider.simulation.homes.vocabulary",
}

__all__ = [
    "Continuation",
    "DecodeRequest",
    "Decoded",
    "DecodingConfig",
    "Drafter",
    "EpisodeResult",
    "LanguageModel",
    "NavigatorSettings",
    "OutriderError",
    "Prompt",
    "PromptContext",
    "RecordedStep",
    "Robot",
    "TextDecoder",
    "Verified",
    "__version__",
    "connect_decoder",
    "emulation_of",
    "generate_home",
    "load_model",
    "load_pair",
    "local_decoder",
    "model_answerer",
    "open_simulator",
    "read_steps",
    "register_drafter",
    "render_prompt",
    "replay_steps",
    "run_episode",
    "target_of",
]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use. Raises AttributeError for any other."""
    if name not in _MODULES:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
