"""What counts as the model's time and what as the host's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.tiny_models import add_exits, build_tiny_pair, random_prompt

from outrider.core.ports import Chunk, Reading
from outrider.decoding.jobs import Aborted
from outrider.evaluation.serving import host_overhead
from outrider.evaluation.serving.host_overhead import TimedModel, measure_host
from outrider.models import load_model
from outrider.runtime.datasets.held_out import Pair


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def thread_time(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        self.now_s += seconds


class Slow:
    """A model whose batch takes 10 s, half of it before its exit is read."""

    name, vocab_size, end_ids, max_length, shares_prompts = "slow", 4, frozenset((0,)), 9, True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def forward_together(self, chunks, read=None, pause=None):
        self._clock.spend(5.0)
        if read is not None:
            reading = read(0, [(0, torch.zeros(1, 4))])
            reading.observe(reading.chosen)
        self._clock.spend(5.0)
        return [torch.zeros(1, 4) for _ in chunks]


def test_reading_exits_is_the_hosts_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(host_overhead, "time", clock)
    timed = TimedModel(Slow(clock))  # type: ignore[arg-type]

    def read(index, rows):
        clock.spend(3.0)
        return Reading(rows[0][1], lambda chosen: clock.spend(2.0))

    chunk = Chunk(None, [1])  # type: ignore[arg-type]
    timed.forward_together([chunk], read)
    timed.forward_together([chunk])
    assert timed.seconds == [10.0, 10.0]
    assert timed.reading_s == [5.0, 0.0]
    assert clock.now_s == 25.0


def test_a_batch_that_is_left_in_its_midst_has_run_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(host_overhead, "time", clock)
    timed = TimedModel(Slow(clock))  # type: ignore[arg-type]

    def leave(chosen):
        clock.spend(2.0)
        raise Aborted

    with pytest.raises(Aborted):
        timed.forward_together([Chunk(None, [1])], lambda index, rows: Reading(rows[0][1], leave))  # type: ignore[arg-type]
    assert timed.seconds == [5.0]
    assert timed.reading_s == [2.0]
    assert clock.now_s == 7.0


@pytest.mark.lengthy
def test_a_robots_texts_are_timed(tmp_path: Path) -> None:
    folder = build_tiny_pair(tmp_path)
    add_exits(folder / "target", (1,), torch.arange(20))
    pair = Pair(load_model(folder / "target"), load_model(folder / "draft", role="draft"))
    host = measure_host(pair, [random_prompt(1)], "fsd")
    assert 0.0 < host.between_ms < 1000.0
    assert 0.0 < host.amid_ms < 1000.0
