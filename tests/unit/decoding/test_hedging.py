"""Two verifiers write one text: it is the target's own, even if one of them fails."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schedules import schedules, worlds
from support.served_verifier import serving
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request, toy_pair

from outrider.core.errors import BusyError, ConfigError
from outrider.core.frames import (
    CloudFrame,
    EdgeFrame,
    Open,
    Pong,
    Refused,
)
from outrider.core.link_profile import LinkProfile, Outage
from outrider.core.ports import FrameLink
from outrider.core.values import Decoded, LinkState
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drivers.hedged_link import HedgedLink
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.decoding.drivers.local_link import LocalLink
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.edge.hedging import INITIAL_WAIT_S, Patience
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.timeline import TimelineEvent
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.wire.codec import encode, wire_bytes

QUIET = VirtualWorld(
    lambda frame: wire_bytes(encode(frame)),
    ComputeProfile(draft_token_s=0.004, target_prefill_s=0.03, verify_s=0.02, step_s=0.02),
    LinkProfile(0.005),
    LinkProfile(0.005),
)

DEAF = replace(QUIET, downlink=LinkProfile(loss=1.0))
"""Nothing arrives from this verifier, and the link does not report it."""

TARGET, DRAFT = toy_pair(3, 0.7, eos_bias=-9.0)


@st.composite
def hedged_configs(draw) -> DecodingConfig:
    """Draw a configuration of a strategy whose texts two verifiers can share."""
    temperature = draw(st.sampled_from([0.0, 1.0]))
    return DecodingConfig(
        draw(st.sampled_from(sorted(STRATEGIES) if temperature == 0.0 else ["ar", "outrider"])),
        num_draft_tokens=draw(st.integers(1, 6)),
        temperature=temperature,
        seed=draw(st.integers(0, 3)),
        silence_s=0.4,
    )


@pytest.mark.lengthy
@schedules
@given(worlds, worlds, hedged_configs(), st.integers(0, 50), st.sampled_from([0.0, 0.6, 1.0]))
def test_any_two_schedules_give_the_targets_own_text(world, second, config, seed, agreement):
    target, draft = toy_pair(seed, agreement, eos_bias=-3.0)
    decoder = VirtualDecoder(target, draft, config, world, second=second)
    for name in ("first", "second", "first"):
        asked = request(name, 30, deadline_s=1e5)
        reported: list[int] = []
        decoded = decoder.decode(
            asked, lambda verified, reported=reported: reported.extend(verified.token_ids)
        )
        assert decoded.token_ids == own_text(target, asked, config.sampling_for(asked.prompt))
        assert tuple(reported) == decoded.token_ids and decoded.unverified_tokens == 0


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_dead_verifier_costs_little_time_and_no_token(strategy: str) -> None:
    dead = replace(QUIET, outages=(Outage(0.0, math.inf),))
    for worlds_ in ((dead, QUIET), (QUIET, dead), (DEAF, QUIET), (QUIET, DEAF)):
        decoded, _ = write(*worlds_, strategy)
        assert decoded[-1].token_ids == own_text(TARGET, request(max_new_tokens=40))
        alone, _ = write(QUIET, None, strategy)
        assert max(waits(decoded)) < max(waits(alone)) + 2 * INITIAL_WAIT_S


@pytest.mark.lengthy
def test_a_standby_verifier_runs_only_the_prompt() -> None:
    _, alone = write(QUIET, None)
    _, both = write(QUIET, QUIET)
    assert both["prefill_cloud"] == pytest.approx(2 * alone["prefill_cloud"])
    assert both["verify"] + both["step"] <= 1.05 * (alone["verify"] + alone["step"])


@pytest.mark.lengthy
def test_killing_the_leader_changes_no_token() -> None:
    kills = tuple(Outage(at_s, at_s + 0.5, verifier_restarts=True) for at_s in (0.1, 1.3, 2.9))
    decoded, _ = write(replace(QUIET, outages=kills), QUIET, texts=20)
    alone, _ = write(QUIET, None, texts=20)
    assert [one.token_ids for one in decoded] == [one.token_ids for one in alone]
    assert max(waits(decoded)) < 0.3


IN_TEXT_S, PROMPT_S, BETWEEN_S, BACK_S = 0.8, 0.54, 0.53, 0.3
"""Times of a kill: in the second text, in its prompt, between it and the first text; and its duration."""


@pytest.mark.lengthy
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((IN_TEXT_S,), ()),
        ((PROMPT_S,), ()),
        ((BETWEEN_S,), ()),
        ((IN_TEXT_S, IN_TEXT_S + 1.5 * BACK_S), ()),
        ((), (IN_TEXT_S,)),
        ((IN_TEXT_S,), (IN_TEXT_S + 1.5 * BACK_S,)),
        ((PROMPT_S,), (PROMPT_S + 1.5 * BACK_S,)),
    ],
)
def test_a_lost_verifier_is_replaced_at_once_whatever_the_patience(
    first: tuple[float, ...], second: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patience, "seconds", lambda *_: 1e3)
    whole, _ = write(QUIET, QUIET, texts=4)
    decoded, _ = write(killed_at(*first), killed_at(*second), texts=4)
    assert [one.token_ids for one in decoded] == [one.token_ids for one in whole]
    assert max(waits(decoded)) < max(waits(whole)) + 0.1
    slowest, usual = (max(one.elapsed_s for one in texts) for texts in (decoded, whole))
    assert slowest < usual + 0.1 * (len(first) + len(second))


def killed_at(*at_s: float) -> VirtualWorld:
    return replace(QUIET, outages=tuple(Outage(one, one + BACK_S, verifier_restarts=True) for one in at_s))


@pytest.mark.lengthy
def test_bursts_of_loss_cost_less_with_a_second_link() -> None:
    link = LinkProfile(0.005, burst_s=0.5, burst_every_s=2.0)
    bursty = replace(QUIET, uplink=link, downlink=link)
    one, _ = write(bursty, None, texts=80)
    two, _ = write(bursty, QUIET, texts=80)
    assert [a.token_ids for a in one] == [b.token_ids for b in two]
    slowest, hedged = (sorted(text.elapsed_s for text in texts)[-4] for texts in (one, two))
    assert hedged < slowest / 1.3


def write(
    first: VirtualWorld, second: VirtualWorld | None, strategy: str = "outrider", texts: int = 3
) -> tuple[list[Decoded], dict[str, float]]:
    """Return texts decoded over one link or two, and the seconds spent on each kind of work."""
    busy_s = dict.fromkeys(("verify", "step", "prefill_cloud"), 0.0)

    def observe(event: TimelineEvent) -> None:
        if event.kind in busy_s:
            busy_s[event.kind] += event.end_s - event.start_s

    decoder = VirtualDecoder(TARGET, DRAFT, DecodingConfig(strategy), first, observe, second=second)
    decoded = [decoder.decode(request(max_new_tokens=40, deadline_s=1e4)) for _ in range(texts)]
    decoder.close()
    return decoded, busy_s


def waits(texts: list[Decoded]) -> list[float]:
    """Return how long each round of each text took."""
    return [one.finished_s - one.started_s for text in texts for one in text.rounds]


def local_links(*models: ToyModel) -> list[LocalLink]:
    return [LocalLink(VerifierService(model)) for model in models]


class Silent(LocalLink):
    """A link that accepts everything, but receives nothing more once it is cut."""

    is_cut = False

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        received = super().receive(timeout_s)
        return None if self.is_cut else received


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_live_decoder_continues_at_the_second_verifier(strategy: str) -> None:
    first = Silent(VerifierService(TARGET))
    hedged = HedgedLink([first, *local_links(TARGET)])
    decoder = LinkedDecoder(hedged, DRAFT, TARGET.tokenizer, DecodingConfig(strategy), 1, "both")

    def cut(_: object) -> None:
        first.is_cut = True

    assert decoder.decode(request()).token_ids == own_text(TARGET, request())
    assert decoder.decode(request("second"), cut).token_ids == own_text(TARGET, request("second"))
    assert decoder.link_state is LinkState.LOCAL
    assert decoder.decode(request("third")).token_ids == own_text(TARGET, request("third"))
    decoder.close()


class Noting(LocalLink):
    """A link that keeps what is sent."""

    def __init__(self, service: VerifierService) -> None:
        super().__init__(service)
        self.sent: list[EdgeFrame] = []

    def send(self, frame: EdgeFrame) -> int:
        self.sent.append(frame)
        return super().send(frame)


@pytest.mark.parametrize("back", ["before it is forgotten", "afterwards"])
def test_a_forgotten_text_is_sent_to_no_verifier_again(back: str) -> None:
    links = [Noting(VerifierService(TARGET)) for _ in range(2)]
    decoder = LinkedDecoder(HedgedLink(links), DRAFT, TARGET.tokenizer, DecodingConfig("outrider"), 1, "both")
    assert decoder.decode(request("secret")).token_ids == own_text(TARGET, request("secret"))
    for link in links:
        link.sent.clear()
        link.generation += back == "before it is forgotten"
    decoder.forget()
    for link in links:
        link.generation += back == "afterwards"
    assert decoder.decode(request("second")).token_ids == own_text(TARGET, request("second"))
    prompts = {frame.text for link in links for frame in link.sent if isinstance(frame, Open)}
    assert prompts == {request("second").prompt.text}
    decoder.close()


def test_the_end_of_a_connection_is_acted_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patience, "seconds", lambda *_: 1e3)
    config = DecodingConfig("outrider", silence_s=60.0)
    with ExitStack() as ending, serving(VerifierService(TARGET)) as second:
        first = ending.enter_context(serving(VerifierService(TARGET)))
        decoder = connect_decoder(first, DRAFT, config, second_endpoint=second)
        assert decoder.decode(request()).token_ids == own_text(TARGET, request())
        asked = request("second", deadline_s=5.0)
        decoded = decoder.decode(asked, lambda _: ending.close())
        assert decoded.token_ids == own_text(TARGET, asked) and decoded.unverified_tokens == 0
        decoder.close()


def test_verifiers_of_different_models_are_refused_by_name() -> None:
    other = ToyModel(ToySettings(seed=4))
    hedged = HedgedLink(local_links(TARGET, other))
    decoder = LinkedDecoder(hedged, DRAFT, TARGET.tokenizer, DecodingConfig("outrider"), 1, "both")
    with pytest.raises(ConfigError, match=r"toy-3.*toy-4"):
        decoder.decode(request())


def test_one_full_verifier_is_skipped_and_two_raise_busy() -> None:
    half = over_both(Refusing(TARGET.name), *local_links(TARGET))
    assert half.decode(request()).token_ids == own_text(TARGET, request())
    with pytest.raises(BusyError):
        over_both(Refusing(TARGET.name), Refusing(TARGET.name)).decode(request(deadline_s=0.5))


def over_both(*links: FrameLink) -> LinkedDecoder:
    return LinkedDecoder(HedgedLink(links), DRAFT, TARGET.tokenizer, DecodingConfig("sd"), 1, "both")


class Refusing:
    """A verifier that refuses every Open as busy."""

    state, generation = LinkState.CONNECTED, 1

    def __init__(self, model: str) -> None:
        self._model = model
        self._answers: list[CloudFrame] = []

    def send(self, frame: EdgeFrame) -> int:
        if isinstance(frame, Open):
            self._answers.append(Refused(frame.session, frame.epoch, "busy", "full"))
        self._answers.append(Pong(frame.session, frame.epoch, self._model, 100, 1, 1))
        return 1

    def receive(self, timeout_s: float) -> tuple[CloudFrame, int] | None:
        return (self._answers.pop(0), 1) if self._answers else None

    def close(self) -> None:
        self._answers.clear()


def test_schemes_with_evidence_allow_no_second_verifier() -> None:
    config = DecodingConfig("sd", temperature=1.0)
    with pytest.raises(ConfigError, match="outrider or ar"):
        connect_decoder("tcp://127.0.0.1:9", DRAFT, config, second_endpoint="tcp://127.0.0.1:10")
    with pytest.raises(ConfigError, match="tcp://HOST:PORT"):
        connect_decoder("tcp://127.0.0.1:9", DRAFT, DecodingConfig(), second_endpoint="nowhere")
