"""Two peers over real sockets write VDRAG's text, over a rough link and with a cloud that loses sessions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from support.peers import joint_text
from support.toys import request, toy_pair

from outrider.core.errors import ConfigError, LinkError, ModelError
from outrider.core.link_profile import LinkProfile, Network
from outrider.core.ports import LanguageModel
from outrider.core.values import Verified
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.driver import PeerDecoder
from outrider.decoding.aggregation.service import AggregationService
from outrider.decoding.aggregation.worker import Context, plain_context
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.serving import FrameService, serve_frames
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.wire.client import DealerLink
from outrider.wire.emulator import EmulatedLink
from outrider.wire.server import RouterServer

MODELS = toy_pair(4, 0.7, eos_bias=-9.0)
ASKED = request(max_new_tokens=40)
RULES = {"coupled": 1.0, "rejection": 1.0, "greedy": 0.0}


@contextmanager
def serving(endpoint: str, service: FrameService | None = None) -> Iterator[None]:
    """Serves as the cloud in a thread of this process."""
    stop = threading.Event()
    server = RouterServer(endpoint)
    service = service or AggregationService(MODELS[1], plain_context)
    thread = threading.Thread(target=serve_frames, args=(service, server, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10.0)
        server.close()


@contextmanager
def peer(
    endpoint: str,
    config: AggregationConfig,
    network: Network | None = None,
    model: LanguageModel = MODELS[0],
) -> Iterator[PeerDecoder]:
    dealer = DealerLink(endpoint)
    link = dealer if network is None else EmulatedLink(dealer, network)
    decoder = PeerDecoder(link, model, config, plain_context, 7, "the cloud")
    try:
        yield decoder
    finally:
        decoder.close()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sync", ["speculative", "token"])
def test_the_text_is_vdrags(endpoint: str, rule: str, sync: str) -> None:
    config = AggregationConfig(sync, rule, temperature=RULES[rule], seed=3)
    heard: list[Verified] = []
    with serving(endpoint), peer(endpoint, config) as decoder:
        decoded = decoder.decode(ASKED, heard.append)
        again = decoder.decode(ASKED)
    assert decoded.token_ids == again.token_ids == joint_text(*MODELS, config, ASKED)
    assert tuple(token for one in heard for token in one.token_ids) == decoded.token_ids
    assert decoded.speculation.bytes_up > 0 and decoded.speculation.prompt_bytes > 0


@pytest.mark.parametrize("rule", RULES)
def test_the_text_is_vdrags_over_a_link_that_loses_and_overtakes(endpoint: str, rule: str) -> None:
    config = AggregationConfig(rule=rule, temperature=RULES[rule], seed=5, silence_s=0.2)
    rough = LinkProfile(0.005, 0.02, loss=0.1, ordered=False)
    with serving(endpoint), peer(endpoint, config, Network("rough", rough, rough)) as decoder:
        assert decoder.decode(ASKED).token_ids == joint_text(*MODELS, config, ASKED)


@pytest.mark.parametrize("rule", RULES)
def test_a_cloud_that_lost_the_text_receives_it_again(endpoint: str, rule: str) -> None:
    class Forgetful(AggregationService):
        """Loses every session once, in the middle of a text."""

        forgotten = False

        def receive(self, peer, frame):
            text = next((session.text for session in self._sessions.values()), None)
            if not self.forgotten and text is not None and len(text.tokens) > 10:
                self.forgotten = True
                self._sessions.clear()
            return super().receive(peer, frame)

    service = Forgetful(MODELS[1], plain_context)
    config = AggregationConfig(rule=rule, temperature=RULES[rule], seed=6, silence_s=0.2)
    with serving(endpoint, service), peer(endpoint, config) as decoder:
        assert decoder.decode(ASKED).token_ids == joint_text(*MODELS, config, ASKED)
    assert service.forgotten


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("other", ["model", "documents"])
def test_a_cloud_restarted_with_another_model_does_not_continue_the_text(
    endpoint: str, rule: str, other: str
) -> None:
    cloud = {
        "model": AggregationService(toy_pair(5, 0.7, eos_bias=-9.0)[0], plain_context),
        "documents": AggregationService(MODELS[1], lambda question: (Context(question, 2.0),)),
    }[other]
    said = {"model": (ModelError, "another model than 'toy-5'"), "documents": (LinkError, "other documents")}
    config = AggregationConfig(rule=rule, temperature=RULES[rule], seed=6, silence_s=0.2)
    with ExitStack() as running:
        running.enter_context(serving(endpoint))

        def swap(_: Verified) -> None:
            running.close()
            running.enter_context(serving(endpoint, cloud))

        with peer(endpoint, config) as decoder, pytest.raises(said[other][0], match=said[other][1]):
            decoder.decode(ASKED, swap)


def test_a_verifier_without_documents_refuses_to_aggregate(endpoint: str) -> None:
    with (
        serving(endpoint, VerifierService(MODELS[1])),
        peer(endpoint, AggregationConfig()) as decoder,
        pytest.raises(ConfigError, match="--corpus"),
    ):
        decoder.decode(ASKED)


def test_an_aggregating_cloud_verifies_nothing(endpoint: str) -> None:
    with serving(endpoint):
        decoder = connect_decoder(endpoint, MODELS[0], DecodingConfig())
        try:
            with pytest.raises(ConfigError, match="aggregates"):
                decoder.decode(ASKED)
        finally:
            decoder.close()


def test_a_missing_cloud_is_reported(endpoint: str) -> None:
    with (
        peer(endpoint, AggregationConfig()) as decoder,
        pytest.raises(LinkError, match=r"the cloud did not finish .* within 0\.3 s"),
    ):
        decoder.decode(request(deadline_s=0.3))
