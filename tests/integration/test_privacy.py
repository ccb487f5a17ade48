"""The shipped pair navigates with private memories: they help, and no part of them is on the wire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from support.leaks import Tap, leaks, packed_ids
from support.served_verifier import serve_verifier
from support.simulated_robot import SimulatedSide

from outrider.core.ports import TextDecoder
from outrider.core.values import Decoded, DecodeRequest, Place, Verified
from outrider.decoding.acceptance.packing import encode_varints
from outrider.decoding.config import DecodingConfig
from outrider.memory.corpus import EmbeddedCorpus
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.observer import Observer
from outrider.memory.store.ranking import sign_code
from outrider.memory.store.store import MemoryStore
from outrider.models import load_model
from outrider.runtime.common.paths import models_folder
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.goal_run import GoalSettings
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.peer_answers import open_peer_answers
from outrider.runtime.plans.errand import Errand
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.knowledge import Knowledge, load_reader
from outrider.simulation.homes.home import generate_home
from outrider.simulation.homes.vocabulary import ObjectSpec, vocabulary
from outrider.simulation.simulator import Simulator

HOME = "test home"
LAMP = "grandmother Rosalind's silver lamp stands beside the mahogany wardrobe"
SECRETS = (
    LAMP,
    "the burglar alarm is switched off with 4711-oleander",
    "my hearing aid batteries lie in the walnut cabinet",
    "the silver lamp was paid for with Leopold's inheritance",
)
INSTRUCTION = "find the silver lamp"
QUESTION = "where did you last see my hearing aid?"
GENERAL = "A hearing aid is tested at the shop behind the harbour."


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


@pytest.fixture(scope="module")
def endpoint(embedder: MiniLmEmbedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serves a verifier that also answers, from general knowledge. Yields its endpoint."""
    endpoint, stop = f"tcp://127.0.0.1:{free_port()}", threading.Event()
    model = load_model(models_folder() / "target")
    corpus = EmbeddedCorpus(tmp_path_factory.mktemp("cloud") / "corpus.db", embedder)
    corpus.add([GENERAL])
    options = {"stop": stop, "knowledge": Knowledge(corpus, load_reader("quotes"))}
    thread = threading.Thread(target=serve_verifier, args=(model, endpoint), kwargs=options)
    thread.start()
    yield endpoint
    stop.set()
    thread.join()
    corpus.close()


@dataclass
class Watched:
    """Implements TextDecoder by another one, and records the distance to the lamp at each prompt."""

    decoder: TextDecoder
    distance_m: Callable[[], float]
    distances_m: list[float] = field(default_factory=list)

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        self.distances_m.append(self.distance_m())
        return self.decoder.decode(request, on_verified, cancelled)

    def close(self) -> None:
        self.decoder.close()


def test_private_memories_lead_the_way_and_nothing_of_them_is_on_the_wire(
    endpoint: str, embedder: MiniLmEmbedder, tmp_path: Path
) -> None:
    home = generate_home(4, ObjectSpec("lamp", "silver"), "other_room")
    simulator, tap = Simulator(home), Tap(int(endpoint.rpartition(":")[2]))
    draft = load_model(models_folder() / "draft", role="draft")
    decoder = connect_decoder(f"tcp://127.0.0.1:{tap.port}", draft, DecodingConfig())
    peers = open_peer_answers(f"tcp://127.0.0.1:{tap.port}", "quotes")
    words = vocabulary()
    try:
        with MemoryStore(tmp_path / "memory.db", embedder) as memory:
            for secret in SECRETS:
                memory.add(
                    secret, place=Place(home.target.x, home.target.y, HOME) if secret == LAMP else None
                )
            side = SimulatedSide(simulator, Observer(memory, HOME))
            watched = Watched(decoder, lambda: side.distance_to(home.target.x, home.target.y))
            recollection = Recollection(memory, HOME, lambda: 2e9)
            errand = Errand(side, watched, words, GoalSettings(), recollection, side.floor, peers)
            start_m = watched.distance_m()
            answered = errand.run(QUESTION, lambda: False)
            result = errand.run(INSTRUCTION, lambda: False)
    finally:
        decoder.close()
        peers.close()
        tap.close()
        simulator.close()
    captured = bytes(tap.captured)
    assert "walnut" in answered.message and GENERAL in answered.message, "both sides have answered"
    assert result.success, result.message
    public = [INSTRUCTION, *chain.from_iterable(words.slots.values()), QUESTION, GENERAL, "my hearing aid"]
    assert leaks(captured, SECRETS, public, draft.tokenizer, embedder) == []
    assert INSTRUCTION.encode() in captured and b"\xff\xd8" in captured, "the tap sees prompt and picture"
    assert QUESTION.encode() in captured
    assert start_m > 3.0 and max(watched.distances_m) < 1.5, (
        "the models were asked at the remembered place only"
    )
    assert watched.distance_m() <= 1.2


def test_the_search_for_leaks_finds_each_form(embedder: MiniLmEmbedder) -> None:

    tokenizer = load_model(models_folder() / "draft", role="draft").tokenizer
    embedding = embedder.embed(LAMP)
    ids = tokenizer.encode(LAMP)[5:11]
    planted = {
        "text": LAMP.upper().encode(),
        "word": b"...mahogany...",
        "msgpack": b"\x96" + packed_ids(tuple(ids)),
        "varints": encode_varints(np.array(ids, dtype=np.int64)),
        "float32": embedding.tobytes()[64:128],
        "float16": embedding.astype("<f2").tobytes()[30:60],
        "signs": sign_code(embedding)[8:24],
    }
    for form, data in planted.items():
        assert leaks(bytes(100) + data + bytes(100), SECRETS, [INSTRUCTION], tokenizer, embedder), form
    assert leaks(bytes(1000), SECRETS, [INSTRUCTION], tokenizer, embedder) == []
