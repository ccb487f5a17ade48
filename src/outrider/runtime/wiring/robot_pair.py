# SPDX-License-Identifier: Apache-2.0
"""Builds the robot's half of the pair from plain settings: draft model, decoder, and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.language.grammar import Vocabulary
from outrider.core.model_options import DEFAULT_MAX_LENGTH, Precision, Runtime
from outrider.core.ports import LanguageModel, TextDecoder
from outrider.core.values import LinkState
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.runtime.common.links import emulation_of
from outrider.runtime.common.paths import model_folder
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.wire.emulator import Emulation


@dataclass(frozen=True)
class EdgeSettings:
    """The settings of the robot's half. `draft_model` is a name for `paths.model_folder`."""

    endpoint: str
    draft_model: str
    config: DecodingConfig
    threads: int = 1
    precision: Precision = "fp32"
    runtime: Runtime = "eager"
    provider: str = "cpu"
    constrained: bool = False
    max_length: int = DEFAULT_MAX_LENGTH
    device: str = "cpu"
    key_file: str = ""
    link_profile: str = ""
    link_rtt_ms: float = 0.0
    second_endpoint: str = ""


@dataclass(frozen=True)
class Edge:
    """The robot's half: its decoder and vocabulary, None for models that accept any sentence.

    `emulation` is the emulated network to the verifier, if any.
    """

    decoder: TextDecoder
    vocabulary: Vocabulary | None
    emulation: Emulation | None = None

    @property
    def link_state(self) -> LinkState:
        """Returns the state of the link; LOCAL without a verifier."""
        return self.decoder.link_state if isinstance(self.decoder, LinkedDecoder) else LinkState.LOCAL

    @property
    def wrote_alone(self) -> bool:
        """Whether the draft model has written part of the current text alone, with `draft_only`."""
        return isinstance(self.decoder, LinkedDecoder) and self.decoder.wrote_alone


def open_edge(settings: EdgeSettings) -> Edge:
    """Load the draft model and prepare the link, which need not be up.

    Raises ModelError, also for a text model, and ConfigError.
    """
    from outrider.models import check_sees, load_tokenizer, read_card  # takes seconds to import

    folder = model_folder(settings.draft_model)
    check_sees(folder)
    card = read_card(folder)
    draft = None
    if settings.config.needs_model:
        draft = load_draft(folder, settings)
    tokenizer = draft.tokenizer if draft else load_tokenizer(folder)
    key_file = Path(settings.key_file) if settings.key_file else None
    emulation = emulation_of(settings.link_profile, settings.link_rtt_ms)
    decoder = connect_decoder(
        settings.endpoint,
        draft,
        settings.config,
        tokenizer=tokenizer,
        key_file=key_file,
        emulation=emulation,
        second_endpoint=settings.second_endpoint,
    )
    return Edge(decoder, card.vocabulary, emulation)


def load_draft(folder: Path, settings: EdgeSettings) -> LanguageModel:
    """Returns the draft model of a folder, loaded with the settings. Raises ModelError and ConfigError."""
    from outrider.models import constrain, load_graph_model, load_model

    options: dict[str, Any] = {
        "threads": settings.threads,
        "precision": settings.precision,
        "max_length": settings.max_length,
    }
    if settings.runtime == "graphs":
        if settings.device != "cpu":
            raise ConfigError(
                f"device={settings.device} is for runtime=eager: where runtime=graphs runs is named by the "
                "option provider, such as provider=cuda or provider=tensorrt"
            )
        draft: LanguageModel = load_graph_model(folder, provider=settings.provider, **options)
    else:
        branches = settings.config.workers
        draft = load_model(folder, role="draft", device=settings.device, sessions=branches, **options)
    return constrain(draft) if settings.constrained else draft
