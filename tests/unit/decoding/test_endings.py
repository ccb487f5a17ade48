"""A text ends at the first of its target's end tokens, whatever the draft's end tokens are."""

from __future__ import annotations

from contextlib import closing

import pytest
from edge_machine import ROOT, edge, grow, prefill
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request

from outrider.core.endings import has_ended, until_end
from outrider.core.errors import ConfigError
from outrider.core.frames import CloudFrame, Opened
from outrider.core.link_profile import LinkProfile
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.prefix_digest import extend_digest
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.wire.codec import encode, wire_bytes

TARGET = ToyModel(ToySettings(seed=3, end_ids=(0, 3, 7, 11), exit_agreement=(0.5, 0.9)))
SCHEMES = ("greedy", "coupled", "rejection", "split", "sparse")
DRAFT = ToyModel(ToySettings(seed=3, end_ids=(0, 5), agreement=0.8, prompt_length=5))
LINK = LinkProfile(delay_s=0.02)
WORLD = VirtualWorld(lambda frame: wire_bytes(encode(frame)), uplink=LINK, downlink=LINK)


def test_nothing_counts_after_the_first_end_token() -> None:
    assert until_end((4, 7, 5, 3), {3, 7}) == (4, 7)
    assert until_end([4, 5], {3}) == (4, 5)
    assert has_ended((4, 3), {3}) and not has_ended((3, 4), {3}) and not has_ended((), {3})


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_strategy_and_scheme_ends_by_the_targets_end_tokens(strategy: str, scheme: str) -> None:
    try:
        config = DecodingConfig(strategy=strategy, acceptance=scheme, num_draft_tokens=4)
    except ConfigError:
        pytest.skip("they do not go together")
    decoder = VirtualDecoder(TARGET, DRAFT, config, WORLD)
    ends = set()
    for number in range(20):
        asked = request(f"text {number}", deadline_s=1e5)
        text = own_text(TARGET, asked)
        ends.add(text[-1])
        assert decoder.decode(asked).token_ids == text
    assert {3, 7, 11} <= ends, "texts must end by each of them"


class LosesTheFirst(LocalLink):
    """Loses the verifier's first Opened, or delivers it late."""

    def __init__(self, service: VerifierService, comes_late: bool) -> None:
        super().__init__(service)
        self._comes_late = comes_late
        self._held: list[tuple[CloudFrame, int]] = []
        self._has_lost = False

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        received = super().receive(timeout_s)
        if received is not None and isinstance(received[0], Opened) and not self._has_lost:
            self._has_lost, self._held = True, [received]
            return None
        if received is None and self._held and self._comes_late:
            return self._held.pop()
        return received


@pytest.mark.parametrize("comes_late", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_text_ends_by_the_targets_end_tokens_though_the_frame_with_them_is_lost(
    strategy: str, comes_late: bool
) -> None:
    config = DecodingConfig(strategy, silence_s=0.02)
    for number in range(6):
        link = LosesTheFirst(VerifierService(TARGET), comes_late)
        with closing(LinkedDecoder(link, DRAFT, DRAFT.tokenizer, config, 1, "here")) as decoder:
            asked = request(f"text {number}", deadline_s=20.0)
            assert decoder.decode(asked).token_ids == own_text(TARGET, asked)


def test_a_text_that_went_on_alone_past_the_targets_end_token_is_complete_once_that_is_known() -> None:
    machine = edge(link_loss="draft_only")
    prefill(machine)
    machine.continue_alone(1.0)
    grow(machine, (4,))
    grow(machine, (7,))
    assert machine.tokens == (4, 7) and not machine.done
    machine.retry(2.0)
    machine.receive(Opened(5, 1, 2, extend_digest(ROOT, (4, 7)), 100, (3, 7)), 3.0)
    assert machine.done
