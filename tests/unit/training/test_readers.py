"""Readers: their lessons, that they can learn to copy, and that a run resumes where it stopped."""

import random
from dataclasses import replace
from functools import partial

import pytest
import torch

from outrider.core.errors import ConfigError
from outrider.core.language.questions import parts_of
from outrider.models import load_model
from outrider.training import readers
from outrider.training.household import ASKS, make_facts, make_lesson


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder with a tokenizer made from few lessons."""
    folder = tmp_path_factory.mktemp("readers")
    readers.readers_tokenizer(folder, 200)
    return folder


def test_an_answer_follows_from_the_records_in_its_prompt():
    rng = random.Random(1)
    for _ in range(50):
        facts = make_facts(rng, 4)
        for ask in ASKS:
            question = ask(facts[2])
            lesson = question.lesson(facts)
            asked, records = parts_of(lesson.prompt)
            assert asked == question.text and records == [fact.told for fact in facts]
            assert facts[2].statement in lesson.answer
            assert question.answer([]) == ""


def test_what_is_told_differs_from_the_answer_about_as_often_as_people_do():
    rng = random.Random(2)
    facts = [fact for _ in range(100) for fact in make_facts(rng, 2)]
    as_answered = sum(fact.statement in fact.told for fact in facts) / len(facts)
    assert 0.45 < as_answered < 0.7


def test_lessons_are_their_seeds():
    assert make_lesson(random.Random(3)) == make_lesson(random.Random(3)) != make_lesson(random.Random(4))


def test_prompts_weigh_little_and_padding_nothing(folder):
    tokenizer = readers.readers_tokenizer(folder)
    lessons = [make_lesson(random.Random(5)), replace(make_lesson(random.Random(6)), answer="yes")]
    rows = readers.lesson_rows(tokenizer, lessons)
    for lesson, ids, weights in zip(lessons, rows.ids, rows.weights, strict=True):
        assert tokenizer.decode(ids[weights == 1.0]) == f" {lesson.answer}<|im_end|>"
        assert tokenizer.decode(ids[(weights > 0.0) & (weights < 1.0)]) in lesson.prompt
        assert set(ids[weights == 0.0][1:].tolist()) <= {tokenizer.pad_token_id}


def test_heads_begin_with_looking_back(folder):
    """At first, head h of the first layer attends to the token h + 1 positions back, whatever the tokens."""
    model = readers.build_model("reader", readers.readers_tokenizer(folder))
    readers.look_back(model)
    model.set_attn_implementation("eager")
    ids = torch.randint(20, 300, (1, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        seen = model(input_ids=ids, output_attentions=True).attentions[0][0]
    for head, rows in enumerate(seen):
        places = torch.arange(10, 40)
        assert torch.equal(rows[10:].argmax(-1), places - head - 1)
        assert rows[places, places - head - 1].min() > 0.5


def test_copied_runs_come_twice_and_count_the_second_time():
    rows = readers.copying_rows(random.Random(0), 20, 60)
    (first, *_), run = rows.weights[0].nonzero().flatten(), int(rows.weights[0].sum()) + 1
    start = int(first) - 1
    assert torch.equal(rows.ids[:, start:], rows.ids[:, :run])
    assert rows.ids.min() >= 20 and rows.ids.max() < 60


@pytest.mark.lengthy
def test_a_run_resumes_as_if_it_had_not_stopped(folder, tmp_path):
    train = partial(readers.train_reader, copying_steps=2, saved_every=2)
    whole = list(train(folder, tmp_path / "whole", 5))
    steps = train(folder, tmp_path / "cut", 5)
    cut = [next(steps) for _ in range(3)]
    steps.close()
    resumed = list(train(folder, tmp_path / "cut", 5))
    assert cut[:2] + resumed == pytest.approx(whole, rel=1e-4)
    model = load_model(folder)
    assert model.card.figures["steps"] == 5
    assert model.tokenizer.encode(" said") == readers.readers_tokenizer(folder).encode(" said")


def test_a_broken_checkpoint_is_named(folder, tmp_path):
    (tmp_path / "reader.checkpoint.pt").write_bytes(b"no checkpoint")
    with pytest.raises(ConfigError, match=r"reader\.checkpoint\.pt is no readable checkpoint"):
        next(readers.train_reader(folder, tmp_path, 5))


def test_a_run_of_another_seed_is_not_taken_for_this_one(folder, tmp_path):
    list(readers.train_reader(folder, tmp_path, 1, seed=0))
    with pytest.raises(
        ConfigError, match=r"checkpoint\.pt is of seed 0, not 1: ask for that, or for another run"
    ):
        next(readers.train_reader(folder, tmp_path, 2, seed=1))
