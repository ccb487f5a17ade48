# SPDX-License-Identifier: Apache-2.0
"""Texts over real sockets: the verifier in another process, the draft here, an emulated link between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing

from outrider.core.link_profile import Network
from outrider.core.ports import LanguageModel
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.evaluation.decoding.live import Stopwatch
from outrider.evaluation.weights.speeds import Journal, KeptText, TextKey, kept_text
from outrider.wire.client import DealerLink
from outrider.wire.emulator import EmulatedLink

TEXT_S = 1200.0
"""A machine that others use may take long."""
SILENCE_S = 60.0
"""A verification on a CPU is no silence."""


class LiveDecoder:
    """One strategy over a link of its own, whose outages go on from text to text."""

    def __init__(self, endpoint: str, network: Network, draft: LanguageModel, config: DecodingConfig) -> None:
        self._network = network
        self._start_s = time.monotonic()
        link = EmulatedLink(DealerLink(endpoint), network, config.seed)
        self._decoder = LinkedDecoder(link, draft, draft.tokenizer, config, 1, f"the verifier at {endpoint}")

    def decode(self, prompt: Prompt, tokens: int) -> KeptText:
        """Raises LinkError where the verifier is lost."""
        watch, began_s = Stopwatch(), time.monotonic() - self._start_s
        text = self._decoder.decode(DecodeRequest(prompt, tokens, TEXT_S), watch.on_verified)
        watch.end_text()
        met_outage = not self._network.is_up(began_s, time.monotonic() - self._start_s)
        return kept_text(text, watch, met_outage)

    def close(self) -> None:
        """Free the session at the verifier and the link here."""
        self._decoder.close()


def decode_missing(
    endpoint: str,
    network: Network,
    draft: LanguageModel,
    configs: Sequence[DecodingConfig],
    prompts: Mapping[int, Prompt],
    tokens: int,
    journal: Journal,
) -> Iterator[None]:
    """Decode what the journal lacks, prompt by prompt with every strategy in turn, so that the machine's
    other work meets all alike; yields after each prompt.
    """
    with ExitStack() as stack:
        decoders = [
            stack.enter_context(closing(LiveDecoder(endpoint, network, draft, config))) for config in configs
        ]
        for index, prompt in prompts.items():
            for config, decoder in zip(configs, decoders, strict=True):
                key = key_of(network.name, config, index)
                if key not in journal:
                    journal.add(key, decoder.decode(prompt, tokens))
            yield


def key_of(network: str, config: DecodingConfig, prompt: int) -> TextKey:
    """Returns the key of a text."""
    return TextKey(network, config.strategy, config.temperature, config.seed, prompt)
