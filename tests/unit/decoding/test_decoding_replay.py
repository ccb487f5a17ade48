"""A replayed model gives the model's own outputs, and runs it once for each text."""

import pytest
import torch
from support.toy_models import ToyModel, ToySession, ToySettings

from outrider.core.ports import Array, OnExit, finish
from outrider.core.values import Prompt
from outrider.decoding.fakes.replay import ReplayModel

PROMPT = Prompt("find the silver bottle", b"\xff\xd8")
OTHER = Prompt("find the red chair", b"\xff\xd8")


class CountingModel(ToyModel):
    """Counts the forwards of all its sessions."""

    forwards = 0

    def open_session(self) -> ToySession:
        model = self

        class Session(ToySession):
            def forward(self, token_ids: list[int], on_exit: OnExit | None = None) -> Array:
                model.forwards += 1
                return super().forward(token_ids, on_exit)

        return Session(self)


@pytest.fixture
def model() -> CountingModel:
    return CountingModel(ToySettings(exit_agreement=(0.3, 0.8)))


def with_exits(session: ToySession, tokens: list[int]) -> tuple[Array, list[Array]]:
    exits: list[Array] = []
    return session.forward(tokens, lambda _, rows: exits.append(rows)), exits


def test_rows_and_exits_are_the_models(model: CountingModel) -> None:
    own, replayed = model.open_session(), ReplayModel(model).open_session()
    assert torch.equal(own.prefill(PROMPT), replayed.prefill(PROMPT))
    for tokens in ([3, 4, 5], [6], [7, 8]):
        rows, exits = with_exits(own, tokens)
        replayed_rows, replayed_exits = with_exits(replayed, tokens)
        assert torch.equal(rows, replayed_rows)
        assert all(torch.equal(a, b) for a, b in zip(exits, replayed_exits, strict=True))
    assert replayed.length == own.length


def test_a_text_is_run_once(model: CountingModel) -> None:
    replay = ReplayModel(model)
    first, second = replay.open_session(), replay.open_session()
    first.prefill(PROMPT)
    rows = first.forward([3, 4, 5])
    count = model.forwards
    second.prefill(PROMPT)
    again = torch.cat([second.forward([token]) for token in (3, 4, 5)])
    assert torch.equal(rows, again)
    assert model.forwards == count


def test_a_prompt_is_replayed_in_parts(model: CountingModel) -> None:
    session = ReplayModel(model, prompt_parts=4).open_session()
    parts = session.prefill_parts(PROMPT)
    for _ in range(3):
        next(parts)
        assert session.length == 0
    assert torch.equal(finish(parts), model.open_session().prefill(PROMPT))


def test_rollback_and_another_prompt(model: CountingModel) -> None:
    replayed, own = ReplayModel(model).open_session(), model.open_session()
    replayed.prefill(PROMPT)
    replayed.forward([3, 4, 5])
    replayed.truncate(replayed.length - 2)
    own.prefill(PROMPT)
    own.forward([3])
    assert torch.equal(replayed.forward([9]), own.forward([9]))
    replayed.prefill(OTHER)
    own.prefill(OTHER)
    assert torch.equal(replayed.forward([3, 9]), own.forward([3, 9]))
