# SPDX-License-Identifier: Apache-2.0
"""Builds the decoding engine: in one process, or over ZeroMQ with a verifier elsewhere."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from outrider.core.errors import ConfigError
from outrider.core.files.terminal import loading
from outrider.core.language.questions import QUOTES
from outrider.core.model_options import DEFAULT_MAX_LENGTH, Precision
from outrider.core.pairs import check_pair
from outrider.core.ports import FrameLink, LanguageModel, Tokenizer
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.hedged_link import HedgedLink
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.limits import CloudLimits
from outrider.runtime.common.cloud_drafts import check_cloud_draft, load_cloud_drafts
from outrider.runtime.common.descriptors import have_descriptors
from outrider.runtime.common.ending_signals import on_ending_signals, set_in_handler
from outrider.runtime.common.process_memory import keep_loaded
from outrider.runtime.wiring.knowledge import open_knowledge
from outrider.runtime.wiring.metrics import metrics_page, only
from outrider.runtime.wiring.replicas import check_replicas, serve_replicas
from outrider.runtime.wiring.verifier import Verifier, log_figures, open_verifier
from outrider.wire.client import DealerLink
from outrider.wire.emulator import Emulation
from outrider.wire.keys import load_client_keys

DEFAULT_ENDPOINT = "tcp://127.0.0.1:5757"
SESSION = 1
"""Every decoder has a link of its own, so its session always has this name, which is short on the wire."""


def local_decoder(
    target: LanguageModel, draft: LanguageModel | None, config: DecodingConfig
) -> LinkedDecoder:
    """Returns a decoder with both models in this process.

    Raises ConfigError or ModelError if they do not fit each other.
    """
    _check_draft(draft, config)
    if draft is not None:
        check_pair(target, draft)
    link = LocalLink(VerifierService(target))
    return LinkedDecoder(link, draft, target.tokenizer, config, SESSION, f"the target {target.name}")


def connect_decoder(
    endpoint: str,
    draft: LanguageModel | None,
    config: DecodingConfig,
    *,
    tokenizer: Tokenizer | None = None,
    key_file: Path | None = None,
    emulation: Emulation | None = None,
    second_endpoint: str = "",
) -> LinkedDecoder:
    """Returns a decoder whose target is at a verifier, which need not be up yet.

    `tokenizer` is required without a draft. `emulation` is the emulated network to the verifier, if any:
    see `emulation_of`. `second_endpoint` is another verifier with the same target and keys, which is used
    when the first is late or gone. After a fork the child needs a decoder of its own. Raises ConfigError for
    a malformed endpoint, key file or link.
    """
    _check_draft(draft, config)
    tokenizer = tokenizer or (draft.tokenizer if draft is not None else None)
    if tokenizer is None:
        raise ConfigError("connect_decoder needs a tokenizer where there is no draft model")
    link, where = open_link(endpoint, key_file, emulation)
    if second_endpoint:
        check_hedged(config)
        second, _ = open_link(second_endpoint, key_file, emulation, seed=1)
        link, where = HedgedLink([link, second]), f"{where}, or the one at {second_endpoint},"
    return LinkedDecoder(link, draft, tokenizer, config, SESSION, where)


def check_hedged(config: DecodingConfig) -> None:
    """Raise ConfigError if two verifiers would not draw the same text."""
    if not config.scheme.deterministic:
        raise ConfigError(
            f"a second verifier draws another text with strategy={config.strategy} at temperature="
            f"{config.temperature:g}: use strategy=outrider or ar, temperature=0, or no second_endpoint"
        )


def open_link(
    endpoint: str, key_file: Path | None = None, emulation: Emulation | None = None, seed: int = 0
) -> tuple[FrameLink, str]:
    """Returns a link to a verifier, which need not be up, and its name. `seed` is for an emulated network.

    Raises as `connect_decoder`.
    """
    dealer = DealerLink(endpoint, load_client_keys(key_file) if key_file is not None else None)
    where = f"the verifier at {endpoint}"
    if emulation is None:
        return dealer, where
    return emulation.over(dealer, seed), f"{where} over an emulated link"


def serve(
    endpoint: str = DEFAULT_ENDPOINT,
    model_folder: Path = Path("models/target"),
    *,
    max_sessions: int = 8,
    threads: int = 1,
    key_file: Path | None = None,
    precision: Precision = "fp32",
    constrained: bool = False,
    max_length: int = DEFAULT_MAX_LENGTH,
    device: str = "cpu",
    corpus: str = "",
    answer_model: str = QUOTES,
    replicas: int = 1,
    metrics_port: int = 0,
    tokens_per_s: float = math.inf,
    draft_model: str = "",
    draft_device: str = "",
) -> None:
    """Load the target, print one line when ready, serve until a signal: `outrider verifier`.

    With several `replicas` Ray Serve starts that number of verifiers, each for `max_sessions`. The
    `draft_model` drafts next to the target; OWN_HEAD names the target's own head. With a `draft_device` it
    drafts there, while the target verifies.
    """
    check_cloud_draft(draft_model, draft_device, constrained)
    stop, is_loaded = _begin_process()
    folder = model_folder.resolve()
    options: dict[str, Any] = {"threads": threads, "sessions": max_sessions, "precision": precision}
    options |= {"max_length": max_length, "device": device}
    load = partial(_load_target, folder, constrained, **options)
    limits = CloudLimits(max_sessions=max_sessions, tokens_per_s=tokens_per_s).on(device)
    if replicas > 1:
        is_loaded.set()
        check_replicas(folder, replicas, **options)
        _serve_replicas(load, endpoint, replicas, device, stop, limits, key_file, metrics_port)
        return
    with loading(_name_of(folder)):
        model = load()
        drafts = load_cloud_drafts(draft_model, draft_device, model, folder, partial(_load, **options))
        knowledge = open_knowledge(corpus, answer_model, threads) if corpus else None
    is_loaded.set()
    verifier = open_verifier(model, endpoint, limits, key_file, knowledge, drafts)
    page = metrics_page(only(verifier.figures), max_sessions, metrics_port)
    _serve_until(stop, verifier, page, f"{model.name} at {endpoint}{drafts}{knowledge or ''}")


def _serve_until(
    stop: threading.Event, verifier: Verifier, page: AbstractContextManager[object], what: str
) -> None:
    keep_loaded()
    with _figures_logged(verifier), closing(verifier), page:
        print(f"verifier ready: {what}", flush=True)
        verifier.serve(stop)


def _begin_process() -> tuple[threading.Event, threading.Event]:
    """Log to stderr, have room for many connections, and handle signals.

    Returns the event that a signal sets, and the one to set once models are loaded. Before that a signal
    ends the process at once.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    have_descriptors()
    stop, is_loaded = threading.Event(), threading.Event()

    def ask_to_stop(number: int, _: object) -> None:
        set_in_handler(stop)
        if not is_loaded.is_set():
            raise SystemExit(128 + number)

    on_ending_signals(ask_to_stop)
    return stop, is_loaded


@contextmanager
def _figures_logged(verifier: Verifier) -> Iterator[None]:
    """Log the verifier's figures that have changed, at intervals and at the end."""
    served = threading.Event()
    logger = threading.Thread(target=log_figures, args=(verifier, served), name="figures")
    logger.start()
    try:
        yield
    finally:
        served.set()
        logger.join()


def _load_target(folder: Path, constrained: bool, **options: Any) -> LanguageModel:
    from outrider.models import constrain  # takes seconds to import, and only a verifier loads a target

    model = _load(folder, role="target", **options)
    return constrain(model) if constrained else model


def _name_of(folder: Path) -> str:
    from outrider.models import model_name

    return model_name(folder)


def _load(folder: Path, **options: Any) -> LanguageModel:
    from outrider.models import load_model

    return load_model(folder.resolve(), **options)


def _serve_replicas(
    load: Callable[[], LanguageModel],
    endpoint: str,
    replicas: int,
    device: str,
    stop: threading.Event,
    limits: CloudLimits,
    key_file: Path | None,
    metrics_port: int,
) -> None:
    def on_ready(_: object) -> None:
        print(f"verifier ready: {replicas} replicas at {endpoint}", flush=True)

    serve_replicas(
        load,
        endpoint,
        replicas,
        stop=stop,
        device=device,
        limits=limits,
        key_file=key_file,
        metrics_port=metrics_port,
        on_ready=on_ready,
    )


def _check_draft(draft: LanguageModel | None, config: DecodingConfig) -> None:
    if config.needs_model and draft is None:
        raise ConfigError(
            f"strategy={config.strategy} needs a draft model: give one, use strategy=ar, or name only "
            "sources of retrieved text as drafters"
        )
