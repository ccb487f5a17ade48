"""What the store forgets is no longer drafted or kept, whichever part deletes it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from support.memories import WordEmbedder
from support.tiny_models import random_prompt

from outrider.core.language.prompt import PromptContext, render_prompt
from outrider.core.values import DecodeRequest, Place, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.memory.store.eviction import StoreLimits
from outrider.memory.store.store import MemoryStore
from outrider.models import load_model
from outrider.runtime.common.paths import models_folder
from outrider.runtime.mission.forgetting_decoder import MindfulDecoder
from outrider.runtime.wiring.decoders import local_decoder

JPEG = random_prompt(1).jpeg
REMEMBERED = "saw silver lamp far left 2.0 m"
OTHER = "saw red ball ahead 1.0 m"
DRAFTERS = ("model", "lookup", "suffix", "calibration", "reuse")


def asked(memory: str) -> DecodeRequest:
    context = PromptContext("find the silver lamp", memories=(memory,))
    return DecodeRequest(Prompt(render_prompt(context), JPEG), 24)


def held(root: object) -> Iterator[object]:
    """Yields every object that is reachable from `root`, except through code and classes."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        thing = waiting.pop()
        yield thing
        for other in gc.get_referents(thing):
            if id(other) not in seen and not isinstance(other, (type, ModuleType, FunctionType)):
                seen.add(id(other))
                waiting.append(other)


def holds(root: object, text: str, tokens: Sequence[int]) -> list[object]:
    """Returns the reachable objects that contain a text, as a string or as a run of its tokens."""
    run, found = list(tokens), list[object]()
    for thing in held(root):
        if isinstance(thing, str) and text in thing:
            found.append(thing)
        elif isinstance(thing, (list, tuple)) and len(thing) >= len(run):
            numbers = list(thing)
            found += [
                thing for at in range(len(numbers) - len(run) + 1) if numbers[at : at + len(run)] == run
            ][:1]
    return found


@pytest.fixture(scope="module")
def decoder() -> Iterator[LinkedDecoder]:
    folder = models_folder()
    pair = load_model(folder / "target"), load_model(folder / "draft", role="draft")
    made = local_decoder(*pair, DecodingConfig(strategy="sd", acceptance="greedy", drafters=DRAFTERS))
    yield made
    made.close()


def test_nothing_that_was_recalled_outlives_its_record(decoder: LinkedDecoder, tmp_path: Path) -> None:
    run = decoder._tokenizer.encode(f" {REMEMBERED}")[1:-1]
    with MemoryStore(tmp_path / "m.db", WordEmbedder()) as memory:
        memory.see("silver lamp", Place(0.0, 2.0, "home"))
        memory.add("something else")
        mindful = MindfulDecoder(decoder, memory)
        first = mindful.decode(asked(REMEMBERED)).text
        assert holds(mindful, REMEMBERED, run), "the search finds what is there"
        mindful.forget_deleted()
        assert holds(mindful, REMEMBERED, run), "as long as nothing is forgotten"
        with MemoryStore(tmp_path / "m.db", WordEmbedder()) as other:
            assert other.forget_matching("lamp") == 1
        mindful.forget_deleted()
        gc.collect()
        assert holds(mindful, REMEMBERED, run) == []
        assert mindful.decode(asked(REMEMBERED)).text == first, "and it still decodes"


def test_the_next_text_comes_after_the_forgetting(decoder: LinkedDecoder, tmp_path: Path) -> None:
    run = decoder._tokenizer.encode(f" {REMEMBERED}")[1:-1]
    with MemoryStore(tmp_path / "m.db", WordEmbedder()) as memory:
        memory.add("the silver lamp is private")
        mindful = MindfulDecoder(decoder, memory)
        mindful.decode(asked(REMEMBERED))
        memory.forget_all()
        mindful.decode(asked(OTHER))
        gc.collect()
        assert holds(mindful, REMEMBERED, run) == []


def test_the_file_counts_what_it_has_forgotten_by_whatever_way(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with MemoryStore(path, WordEmbedder()) as memory, MemoryStore(path, WordEmbedder()) as other:
        ids = [memory.add(f"fact {number}").id for number in range(5)]
        assert other.num_forgotten() == 0
        memory.forget(ids[:1])
        memory.forget(ids[:1])
        assert other.num_forgotten() == 1
        other.forget_matching("fact 1")
        assert memory.num_forgotten() == 2
    with MemoryStore(path, WordEmbedder(), limits=StoreLimits(max_records=1)) as memory:
        assert memory.count() == 1 and memory.num_forgotten() == 4
