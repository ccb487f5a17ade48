"""A draft with a shorter context than its target: the text is the target's, drafted only if it fits."""

from __future__ import annotations

import pytest
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request

from outrider.core.errors import ConfigError
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.wire.codec import encode, wire_bytes

WORLD = VirtualWorld(lambda frame: wire_bytes(encode(frame)))
PROMPT, LENGTH = 7, 24


def decoder(strategy: str, target_room: int, draft_room: int) -> VirtualDecoder:
    settings = [
        ToySettings(seed=5, eos_bias=-9.0, max_length=PROMPT + room) for room in (target_room, draft_room)
    ]
    config = DecodingConfig(strategy=strategy, num_draft_tokens=4)
    return VirtualDecoder(ToyModel(settings[0]), ToyModel(settings[1]), config, WORLD)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("draft_room", [-1, 0, 1, 5, LENGTH - 1, LENGTH])
def test_texts_are_the_targets_however_little_room_the_draft_has(strategy: str, draft_room: int) -> None:
    both = decoder(strategy, 200, draft_room)
    for number in range(3):
        asked = request(f"text {number}", max_new_tokens=LENGTH, deadline_s=1e4)
        assert both.decode(asked).token_ids == own_text(ToyModel(ToySettings(seed=5, eos_bias=-9.0)), asked)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_target_without_room_refuses_whatever_the_draft_has(strategy: str) -> None:
    for draft_room in (3, 200):
        with pytest.raises(ConfigError, match="exceeds the 12 of toy-5"):
            decoder(strategy, 5, draft_room).decode(request(max_new_tokens=LENGTH, deadline_s=1e4))


def test_a_later_text_that_has_room_is_drafted() -> None:
    both = decoder("sd", 200, 8)
    assert both.decode(request(max_new_tokens=LENGTH, deadline_s=1e4)).speculation.drafted_tokens == 0
    assert both.decode(request("short", max_new_tokens=6, deadline_s=1e4)).speculation.drafted_tokens > 0
