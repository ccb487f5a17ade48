"""Verifiers over emulated networks: delays, losses, blackouts and changes within a text."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from support.live_wire import (
    DRAFT,
    TARGET,
    connected,
    serving,
)
from support.toys import own_text, request

from outrider.core.errors import LinkError
from outrider.core.values import LinkState
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.runtime.common.links import emulation_of, load_network
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.wire.emulator import Emulation
from outrider.wire.keys import create_keys


def describe_link(path: Path, **figures) -> str:
    """Writes a link file with these figures. Returns its path."""
    figures = {"source": "this test", "rtt_ms": 0, "up_mbps": 100, "down_mbps": 100} | figures
    path.write_text("".join(["lab:\n", *(f"  {name}: {value}\n" for name, value in figures.items())]))
    return str(path)


@pytest.mark.parametrize("strategy", ["ar", "sd"])
def test_over_an_emulated_network_the_text_is_the_same_and_takes_its_round_trips(
    endpoint, tmp_path, strategy
):
    keys = create_keys(tmp_path)
    link = describe_link(tmp_path / "lab.yaml", rtt_ms=20, jitter_ms=5, loss=0.05, retransmit_ms=10)
    asked = request(max_new_tokens=24)
    with (
        serving(endpoint, key_file=keys[0]),
        connected(endpoint, strategy, key_file=keys[1], emulation=emulation_of(link)) as decoder,
    ):
        for _ in range(2):
            decoded = decoder.decode(asked)
            assert decoded.token_ids == own_text(TARGET, asked)
            assert decoded.link is LinkState.CONNECTED
            round_trips = 1 if strategy == "ar" else len(decoded.rounds)
            assert decoded.elapsed_s >= 0.02 * round_trips


def test_frames_that_are_lost_for_good_or_overtake_each_other_change_nothing(endpoint, tmp_path):
    link = describe_link(tmp_path / "lab.yaml", jitter_ms=10, loss=0.1, ordered="false")
    asked = request(max_new_tokens=24, deadline_s=120.0)
    config = DecodingConfig(silence_s=0.05)
    with serving(endpoint):
        decoder = connect_decoder(endpoint, DRAFT, config, emulation=emulation_of(link))
        assert decoder.decode(asked).token_ids == own_text(TARGET, asked)
        decoder.close()


def test_a_text_survives_blackouts_without_a_token_lost_or_repeated(endpoint, tmp_path):
    blackouts = {"blackouts": "[{start_s: 0.1, length_s: 0.1}]", "blackouts_repeat_s": 0.25}
    link = describe_link(tmp_path / "lab.yaml", rtt_ms=20, **blackouts)
    asked = request(max_new_tokens=80, deadline_s=120.0)
    reported: list[int] = []
    states = set()
    with serving(endpoint), connected(endpoint, emulation=emulation_of(link)) as decoder:
        decoded = decoder.decode(
            asked,
            lambda verified: reported.extend(verified.token_ids),
            lambda: states.add(decoder.link_state) or False,
        )
    assert decoded.token_ids == tuple(reported) == own_text(TARGET, asked)
    assert {LinkState.CONNECTED, LinkState.LOST} <= states


def test_a_link_may_change_under_a_text_and_between_texts_and_no_token_does(endpoint, tmp_path):
    """From a LAN to a satellite link and back, through networks that lose, reorder and black out."""
    figures: dict[str, dict[str, object]] = {
        "lan": {"rtt_ms": 1},
        "satellite": {"rtt_ms": 600},
        "lossy": {"rtt_ms": 5, "jitter_ms": 10, "loss": 0.05, "ordered": "false"},
        "dark": {"rtt_ms": 5, "blackouts": "[{start_s: 0.05, length_s: 0.05}]", "blackouts_repeat_s": 0.15},
    }
    networks = {
        name: load_network(describe_link(tmp_path / f"{name}.yaml", **one)) for name, one in figures.items()
    }
    emulation, turns = Emulation(networks["lan"]), itertools.cycle(networks.values())
    asked, reported = request(max_new_tokens=80, deadline_s=120.0), list[int]()

    def switch(verified):
        reported.extend(verified.token_ids)
        emulation.follow(next(turns))

    with serving(endpoint):
        config = DecodingConfig(silence_s=0.2)
        decoder = connect_decoder(endpoint, DRAFT, config, emulation=emulation)
        assert decoder.decode(asked, switch).token_ids == tuple(reported) == own_text(TARGET, asked)
        emulation.follow(networks["lan"])
        fast = decoder.decode(asked)
        emulation.follow(networks["satellite"])
        slow = decoder.decode(asked)
        decoder.close()
    assert fast.token_ids == slow.token_ids == own_text(TARGET, asked)
    assert slow.elapsed_s >= 0.6


def test_the_strategy_may_change_between_texts_of_one_session(endpoint):
    asked = request(max_new_tokens=24)
    with serving(endpoint), connected(endpoint, "outrider") as decoder:
        for strategy in (*STRATEGIES, "outrider"):
            decoder.use(DecodingConfig(strategy=strategy))
            assert decoder.decode(asked).token_ids == own_text(TARGET, asked), strategy
            assert decoder.strategy == strategy


def test_a_strategy_that_is_asked_for_within_a_text_waits_for_the_next(endpoint):
    asked = request(max_new_tokens=24)
    with serving(endpoint), connected(endpoint, "outrider") as decoder:

        def switch(verified):
            decoder.use(DecodingConfig(strategy="ar"))
            assert decoder.strategy == "outrider"

        assert decoder.decode(asked, switch).token_ids == own_text(TARGET, asked)
        drafted = [sum(one.drafted for one in decoder.decode(asked).rounds), decoder.strategy]
    assert drafted == [0, "ar"]


def test_a_missing_verifier_is_reported_with_the_emulated_network(endpoint, tmp_path):
    link = describe_link(tmp_path / "lab.yaml")
    with (
        connected(endpoint, emulation=emulation_of(link)) as decoder,
        pytest.raises(LinkError, match="over an emulated link cannot be reached"),
    ):
        decoder.decode(request(deadline_s=0.3))
