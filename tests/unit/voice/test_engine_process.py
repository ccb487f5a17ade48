"""The process of an engine: a fault in it costs one utterance, and is reported."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import closing
from select import select

import pytest

from outrider.core.errors import LinkError
from outrider.core.hearing import Utterance
from outrider.voice import framing as f
from outrider.voice.engine_process import EngineProcess
from outrider.voice.hearing import PIECE_BYTES, Heard, heard_in
from outrider.voice.worker import NOT_HEARD, hear

FRAGILE = """
import os, time
from outrider.voice import worker

class Utterance:
    heard = b""

    def act(self, when):
        if self.heard.startswith(when + b" dies"): os._exit(1)
        if self.heard.startswith(when + b" hangs"): time.sleep(600)
        if self.heard.startswith(when + b" fails"): raise ValueError("of a library")

    def feed(self, samples):
        self.heard += samples
        self.act(b"feed")
        return samples.startswith(b"stop")

    def end(self):
        self.act(b"end")
        return self.heard.decode()

class Engine:
    listen = staticmethod(Utterance)

worker.make_engine = lambda *_: Engine()
worker.main()
"""


def fragile(**waits_s: float) -> EngineProcess:
    waits_s = {"ready_s": 60.0, **waits_s}
    return EngineProcess("fragile", None, worker=(sys.executable, "-c", FRAGILE), **waits_s)


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with closing(fragile()) as made:
        yield made


def test_each_utterance_is_answered_in_its_turn(engine: EngineProcess) -> None:
    assert heard_in(engine, b"go on") == Heard("go on", False)
    assert heard_in(engine, b"stop") == Heard("stop", True)
    assert heard_in(engine, b"") == Heard("", False)


@pytest.mark.parametrize("when", ["feed", "end"])
def test_a_fault_of_the_engine_costs_one_utterance_and_no_process(engine: EngineProcess, when: str) -> None:
    assert heard_in(engine, b"before").sentence == "before"
    process = engine._process
    for _ in range(3):
        with pytest.raises(LinkError, match=NOT_HEARD):
            heard_in(engine, f"{when} fails".encode())
        assert heard_in(engine, b"after") == Heard("after", False)
    assert engine._process is process


class Broken:
    """An engine that always fails."""

    name = "broken"

    def listen(self) -> Utterance:
        raise ZeroDivisionError("of a library")


def test_a_fault_of_the_engine_is_written_down_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    source, sink = io.BytesIO(), io.BytesIO()
    for kind in (f.LISTEN, f.SAMPLES, f.END):
        f.write_frame(source, kind, b"x")
    source.seek(0)
    hear(Broken(), source, sink)
    sink.seek(0)
    assert [f.read_frame(sink) for _ in range(3)] == [(f.FAILED, NOT_HEARD.encode())] * 3
    line = f"{NOT_HEARD} (ZeroDivisionError: of a library)"
    assert capsys.readouterr().err.splitlines() == [line] * 3


@pytest.mark.lengthy
@pytest.mark.parametrize("when", ["feed", "end"])
def test_an_engine_that_ends_serves_the_next_utterance(engine: EngineProcess, when: str) -> None:
    """It does so at once, even if its old process does not count as ended yet."""
    for _ in range(5):
        with pytest.raises(LinkError, match="has ended"):
            heard_in(engine, f"{when} dies".encode())
        assert heard_in(engine, b"after") == Heard("after", False)


@pytest.mark.lengthy
@pytest.mark.parametrize("when", ["feed", "end"])
def test_an_engine_that_does_not_answer_is_ended_and_started_anew(when: str) -> None:
    with closing(fragile(answer_s=1.0)) as engine:
        assert heard_in(engine, b"before").sentence == "before"
        with pytest.raises(LinkError, match="more than 1 s: say less"):
            heard_in(engine, f"{when} hangs".encode())
        assert heard_in(engine, b"after") == Heard("after", False)


@pytest.mark.lengthy
def test_the_limit_holds_for_what_a_frozen_engine_does_not_take() -> None:
    with closing(fragile(answer_s=1.0)) as engine:
        utterance = engine.listen()
        engine._process.send_signal(signal.SIGSTOP)
        with pytest.raises(LinkError, match="more than 1 s: say less"):
            utterance.feed(b"x" * 400 * PIECE_BYTES)
        assert heard_in(engine, b"after") == Heard("after", False)


def test_an_engine_that_hangs_while_it_loads_keeps_nobody_waiting() -> None:
    with closing(fragile(ready_s=0.1)) as engine:
        process = engine._process
        process.send_signal(signal.SIGSTOP)
        for _ in range(3):
            with pytest.raises(LinkError, match="still being loaded"):
                engine.listen()
        assert engine._process is process, "one that is only slow goes on with it"


def test_an_engine_that_is_not_ready_in_time_is_started_anew() -> None:
    with closing(fragile(ready_s=0.1, load_s=0.0)) as engine:
        engine._process.send_signal(signal.SIGSTOP)
        with pytest.raises(LinkError, match="not ready in 0 s, and is started anew"):
            engine.listen()
        assert select([engine._process.stdout], [], [], 60.0)[0], "the next one says that it is ready"
        assert heard_in(engine, b"after") == Heard("after", False)


@pytest.mark.lengthy
def test_an_engine_that_was_closed_is_started_anew(engine: EngineProcess) -> None:
    for _ in range(2):
        engine.close()
        assert heard_in(engine, b"after") == Heard("after", False)


def test_a_long_piece_is_answered(engine: EngineProcess) -> None:
    utterance = engine.listen()
    assert not utterance.feed(b"x" * 400 * PIECE_BYTES) and len(utterance.end()) == 400 * PIECE_BYTES
