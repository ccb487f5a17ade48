"""The first line is an action, whatever the model prefers, and the text is still the target's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from support.tiny_models import random_prompt

from outrider.core.errors import ModelError
from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.language.prompt import PromptContext, render_prompt
from outrider.core.ports import Chunk
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.models import ConstrainedModel, QwenModel, constrain, load_model
from outrider.models.constrained import FORBIDDEN, LineGrammar
from outrider.runtime.wiring.decoders import local_decoder


@pytest.fixture(scope="module")
def pair(tiny_model_folder: Path) -> tuple[ConstrainedModel, QwenModel]:
    return constrain(load_model(tiny_model_folder / "target")), load_model(tiny_model_folder / "draft")


def test_the_grammar_allows_every_action_and_nothing_else(target: QwenModel) -> None:
    grammar = LineGrammar(target.tokenizer, ACTION_TEXTS)
    for action in ACTION_TEXTS:
        token_ids = target.tokenizer.encode(f"{action}\n")
        for place, token_id in enumerate(token_ids):
            allowed = grammar.allowed(token_ids[:place])
            assert allowed is not None and token_id in allowed
            begun = target.tokenizer.decode(token_ids[:place])
            for other in allowed.tolist():
                grown = begun + target.tokenizer.decode([other])
                assert any(f"{line}\n".startswith(grown) for line in ACTION_TEXTS)
        assert grammar.allowed(token_ids) is None
    assert grammar.allowed(target.tokenizer.encode("sit")) is None


def test_a_line_that_cannot_be_written_is_refused(target: QwenModel) -> None:
    class Silent:
        def encode(self, text: str) -> list[int]:
            return [1, 2]

    with pytest.raises(ModelError, match="no token to go on"):
        LineGrammar(Silent(), ["stop"])  # type: ignore[arg-type]


def test_forbidden_tokens_have_no_probability_and_others_keep_theirs(
    pair: tuple[ConstrainedModel, QwenModel], target: QwenModel
) -> None:
    constrained, free = pair[0].open_session(), target.open_session()
    row, whole = constrained.prefill(random_prompt(1)), free.prefill(random_prompt(1))
    kept = row > FORBIDDEN
    assert 0 < kept.sum() < len(row)
    assert torch.equal(row[kept], whole[kept])
    assert row.softmax(0)[~kept].sum() == 0.0


def test_rollback_and_batches_keep_the_constraint(pair: tuple[ConstrainedModel, QwenModel]) -> None:
    model = pair[0]
    token_ids = model.tokenizer.encode("turn left small\nlook")
    one, other = model.open_session(), model.open_session()
    for session in (one, other):
        session.prefill(random_prompt(2))
    rows = one.forward(token_ids)
    length = one.length
    one.truncate(length - len(token_ids) + 1)
    assert torch.equal(one.forward(token_ids[1:]), rows[1:])
    one.truncate(length - len(token_ids))
    together = model.forward_together([Chunk(one, token_ids), Chunk(other, token_ids[:2])])
    assert torch.equal(together[0], rows) and torch.equal(together[1], rows[:2])
    with pytest.raises(ValueError, match="one model"):
        model.forward_together([Chunk(load_session(pair[1]), [1])])


def test_constraints_of_a_growing_text_are_those_of_the_whole(target: QwenModel) -> None:
    """Lines with odd tokens inserted, tokens that are no text, parts of characters, and rollbacks."""
    tokenizer, model = target.tokenizer, constrain(target)
    session, free = model.open_session(), target.open_session()
    for one in (session, free):
        one.prefill(random_prompt(4))
    start, chance = session.length, random.Random(5)
    text: list[int] = []
    odd = [*tokenizer.end_ids, *(tokenizer.encode(text)[0] for text in ("€", "ü", "\n", "<|im_end|>"))]
    for _ in range(60):
        del text[chance.randint(0, len(text)) :]
        for one in (session, free):
            one.truncate(start + len(text))
        line = tokenizer.encode(f"{chance.choice(ACTION_TEXTS)}\n")
        line.insert(chance.randint(0, len(line)), chance.choice([*odd, *line]))
        given = line[: chance.randint(1, len(line))]
        rows, whole = session.forward(given), free.forward(given)
        for place, row in enumerate(rows):
            text.append(given[place])
            allowed = model.grammar.allowed(text)
            kept = torch.arange(len(row)) if allowed is None else allowed
            assert torch.equal((row > FORBIDDEN).nonzero()[:, 0], kept)
            assert torch.equal(row[kept], whole[place][kept])


def test_nothing_is_decoded_past_the_line(target: QwenModel) -> None:
    decoded: list[int] = []

    class Counting:
        def encode(self, text: str) -> list[int]:
            return target.tokenizer.encode(text)

        def decode(self, token_ids: Sequence[int]) -> str:
            decoded.append(len(token_ids))
            return target.tokenizer.decode(token_ids)

    grammar = LineGrammar(Counting(), ACTION_TEXTS)  # type: ignore[arg-type]
    session = ConstrainedModel(target, grammar).open_session()
    session.prefill(random_prompt(2))
    line = target.tokenizer.encode("stop\n")
    rows = session.forward([*line, 5, 6])
    assert decoded == [0, *range(1, len(line) + 1)]
    session.truncate(session.length - 1)
    assert torch.equal(session.forward([6])[0], rows[-1]) and decoded[-1] == len(line)
    session.truncate(session.length - 3)
    session.forward([5])
    assert decoded[-1] == len(line)


def load_session(model: QwenModel) -> object:
    return model.open_session()


@pytest.mark.lengthy
@pytest.mark.parametrize("strategy", ["sd", "dssd", "fsd", "picospec", "outrider"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_strategy_writes_an_action_line(
    pair: tuple[ConstrainedModel, QwenModel], strategy: str, temperature: float
) -> None:
    def text(strategy: str, seed: int) -> tuple[int, ...]:
        config = DecodingConfig(strategy=strategy, temperature=temperature, seed=seed)
        decoder = local_decoder(pair[0], pair[1] if strategy != "ar" else None, config)
        return decoder.decode(DecodeRequest(random_prompt(3), 20)).token_ids

    for seed in range(2):
        token_ids = text(strategy, seed)
        assert pair[0].tokenizer.decode(token_ids).partition("\n")[0] in ACTION_TEXTS
        if temperature == 0.0 or strategy == "outrider":
            assert token_ids == text("ar", seed)


def test_the_prompt_of_a_general_model_lists_the_actions(target: QwenModel) -> None:
    told = render_prompt(PromptContext("find the cup"), instructed=True)
    assert all(action in told for action in ACTION_TEXTS)
    assert told.endswith(render_prompt(PromptContext("find the cup")).partition("<|im_end|>")[2])
    assert target.open_session().prefill(Prompt(told, random_prompt(1).jpeg)).isfinite().all()


def test_a_session_that_takes_over_anothers_text_is_constrained_as_it_is(
    pair: tuple[ConstrainedModel, QwenModel],
) -> None:
    model = pair[0]
    first, second = model.open_session(), model.open_session()
    first.prefill(random_prompt(1))
    start = first.length
    line = model.tokenizer.encode(f"{ACTION_TEXTS[0]}\n")
    first.forward([*line, 5])
    for kept in (0, 1, len(line), len(line) + 1):
        second.copy_from(first, 0, start + kept)
        alone = model.open_session()
        alone.prefill(random_prompt(1))
        rest = [*line, 5, 6][kept:]
        assert torch.equal(second.forward(rest), alone.forward([*line, 5, 6])[kept:])
