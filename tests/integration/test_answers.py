"""Questions to a robot, answered over real sockets in one text by a robot and a verifier with a corpus."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.leaks import Tap, leaks
from support.served_verifier import serve_verifier

from outrider.core.errors import Cancelled, ConfigError
from outrider.core.language.plan import Ask, Where
from outrider.core.language.questions import question_prompt
from outrider.core.language.sentences.planner import plan_of
from outrider.core.values import DecodeRequest, Place, Pose2D, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.memory.corpus import EmbeddedCorpus
from outrider.memory.embedding import MiniLmEmbedder
from outrider.memory.store.store import MemoryStore
from outrider.models import load_model
from outrider.runtime.common.paths import models_folder
from outrider.runtime.common.ports import free_port
from outrider.runtime.mission.answers import Answers, ask_once
from outrider.runtime.mission.memory_queries import Recollection
from outrider.runtime.mission.peer_answers import PeerAnswers, open_peer_answers
from outrider.runtime.wiring.corpora import fill_corpus
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.knowledge import Knowledge, corpus_documents, load_reader

SECRETS = (
    "my hearing aid batteries lie in the walnut cabinet behind Rosalind's portrait",
    "the burglar alarm is switched off with 4711-oleander",
)
HANDBOOK = "Batteries are sold at the kiosk in Mill Street.\n\nThe museum opens at nine."
ASKED_ABOUT = "my hearing aid batteries"
BOTH = "tell me where my hearing aid batteries are and where batteries are sold?"
SOLD = "Batteries are sold at the kiosk in Mill Street."


def asked(question: str) -> Ask | Where:
    (step,) = plan_of(question, None).steps
    assert isinstance(step, (Ask, Where))
    return step


@pytest.fixture(scope="module")
def verifiers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yields the endpoints of two verifiers: one with a corpus, one without."""
    folder = tmp_path_factory.mktemp("cloud")
    (folder / "handbook.md").write_text(HANDBOOK)
    corpus = EmbeddedCorpus(folder / "corpus.db", MiniLmEmbedder())
    assert "2 new" in fill_corpus(corpus, folder)
    target, stop = load_model(models_folder() / "target"), threading.Event()
    endpoints, threads = {}, []
    for name, knowledge in (("corpus", Knowledge(corpus, load_reader("quotes"))), ("plain", None)):
        endpoints[name] = f"tcp://127.0.0.1:{free_port()}"
        options = {"stop": stop, "knowledge": knowledge}
        threads.append(
            threading.Thread(target=serve_verifier, args=(target, endpoints[name]), kwargs=options)
        )
    for thread in threads:
        thread.start()
    yield endpoints
    stop.set()
    for thread in threads:
        thread.join()
    corpus.close()


@pytest.fixture
def recollection(tmp_path: Path) -> Iterator[Recollection]:
    with MemoryStore(tmp_path / "memory.db", MiniLmEmbedder()) as memory:
        for secret in SECRETS:
            memory.add(secret, time_s=2e9 - 90.0)
        memory.see("red ball", Place(2.0, 0.0, "home"), time_s=2e9 - 90.0)
        yield Recollection(memory, "home", lambda: 2e9)


@pytest.fixture
def connect() -> Iterator[Callable[..., PeerAnswers]]:
    opened: list[PeerAnswers] = []

    def make(endpoint: str, **options: Any) -> PeerAnswers:
        opened.append(open_peer_answers(endpoint, "quotes", **options))
        return opened[-1]

    yield make
    for peers in opened:
        peers.close()


def test_private_and_general_knowledge_make_one_answer_and_nothing_private_is_on_the_wire(
    verifiers: dict[str, str], recollection: Recollection, connect: Callable[[str], PeerAnswers]
) -> None:
    tap = Tap(int(verifiers["corpus"].rpartition(":")[2]))
    answers = Answers(recollection, connect(f"tcp://127.0.0.1:{tap.port}"))
    meaning = asked(BOTH)
    assert isinstance(meaning, Ask)
    answer = answers.reply(meaning, None)
    seen = answers.reply(asked("where did you last see the red ball?"), Pose2D(0.0, 0.0, 0.0))
    tap.close()
    assert SECRETS[0] in answer and SOLD in answer and "#" not in answer
    assert "2.0 m ahead" in seen and "1 minute ago" in seen
    captured, tokenizer = bytes(tap.captured), load_reader("quotes").tokenizer
    public, embedder = [BOTH, ASKED_ABOUT, SOLD], MiniLmEmbedder()
    assert leaks(captured, SECRETS, public, tokenizer, embedder) == []
    assert BOTH.encode() in captured, "the tap sees the question"
    assert leaks(
        captured + SECRETS[0].encode(), SECRETS, [BOTH, ASKED_ABOUT, SOLD], tokenizer, MiniLmEmbedder()
    )


def test_navigation_is_verified_along_with_the_answers(
    verifiers: dict[str, str], recollection: Recollection, connect: Callable[[str], PeerAnswers]
) -> None:
    request = DecodeRequest(Prompt("task: stop", b""), 12)
    texts = []
    for endpoint in verifiers.values():
        tokenizer = load_reader("quotes").tokenizer
        decoder = connect_decoder(endpoint, None, DecodingConfig(strategy="ar"), tokenizer=tokenizer)
        texts.append(decoder.decode(request).token_ids)
        if endpoint == verifiers["corpus"]:
            assert SOLD in Answers(recollection, connect(endpoint)).reply(asked(BOTH), None)
            texts.append(decoder.decode(request).token_ids)
        decoder.close()
    assert texts[0] == texts[1] == texts[2] and texts[0]


def test_without_a_corpus_the_robot_answers_alone_and_says_why(
    verifiers: dict[str, str], recollection: Recollection, connect: Callable[[str], PeerAnswers]
) -> None:
    answer = Answers(recollection, connect(verifiers["plain"])).reply(asked(BOTH), None)
    assert "walnut" in answer and "alone" in answer and "--corpus" in answer and SOLD not in answer


def test_without_a_cloud_the_robot_answers_alone_in_time(
    recollection: Recollection, connect: Callable[..., PeerAnswers]
) -> None:
    answers = Answers(recollection, connect(f"tcp://127.0.0.1:{free_port()}", deadline_s=0.2))
    answer = answers.reply(asked(BOTH), None)
    assert "walnut" in answer and "the cloud does not answer" in answer
    with pytest.raises(Cancelled):
        answers.reply(asked(BOTH), None, lambda: True)


def test_one_question_from_the_command_line(verifiers: dict[str, str], tmp_path: Path) -> None:
    with MemoryStore(tmp_path / "m.db", MiniLmEmbedder()) as memory:
        memory.add(SECRETS[0])
    store = str(tmp_path / "m.db")
    assert "walnut" in ask_once("tell me about my hearing aid batteries", store=store)
    assert "walnut" in ask_once("Where are my hearing aid batteries?", store=store)
    together = ask_once(BOTH, "aggregate", verifiers["corpus"], answer_model="quotes", store=store)
    assert "walnut" in together and SOLD in together
    with pytest.raises(ConfigError, match="not one of memory, aggregate"):
        ask_once(BOTH, "cloud", store=store)
    with pytest.raises(ConfigError, match="asks nothing"):
        ask_once("turn left", store=store)


def test_a_long_corpus_leaves_room_for_the_answer(tmp_path: Path) -> None:
    corpus, reader = EmbeddedCorpus(tmp_path / "corpus.db", MiniLmEmbedder()), load_reader("quotes")
    corpus.add([f"keys {number} " + "zyx" * 90 for number in range(5)])
    retrieve = corpus_documents(corpus, reader)
    (context,) = retrieve(Prompt(question_prompt("where are keys?"), b""))
    assert 0 < context.prompt.text.count("keys ") <= 3
    assert len(reader.tokenizer.encode(context.prompt.text)) + 96 <= reader.max_length
    corpus.close()
