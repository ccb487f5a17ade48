"""A verifier with its own draft model writes the target's own text, whatever the link and the drafts do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from cloud_machine import ALICE, BOB, USEFUL, Clock, frames, opening
from hypothesis import given
from hypothesis import strategies as st
from support.schedules import schedules, worlds
from support.toy_models import ToyModel, ToySettings
from support.toys import own_text, request, toy_pair

from outrider.core.errors import ModelError
from outrider.core.frames import Draft, Verdict
from outrider.core.link_profile import LinkProfile
from outrider.core.ports import Array
from outrider.core.values import DecodeRequest
from outrider.decoding import reference
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.jobs import CloudDraft
from outrider.decoding.policy.cloud_drafting import Price, Ready, best_extent
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.timeline import TimelineEvent
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.wire.codec import encode, wire_bytes


def cloud_draft(seed: int, agreement: float, eos_bias: float) -> ToyModel:
    """Return a draft that agrees at the rate `agreement`, in other positions than the edge's draft."""
    return ToyModel(ToySettings(seed=seed, eos_bias=eos_bias, agreement=agreement, prompt_length=7))


@pytest.mark.lengthy
@schedules
@given(
    worlds,
    st.sampled_from(sorted(STRATEGIES)),
    st.sampled_from([0.0, 0.8]),
    st.integers(0, 50),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.6, 0.9, 1.0]),
    st.sampled_from([-3.0, 1.5]),
    st.integers(1, 40),
    st.booleans(),
)
def test_any_schedule_gives_the_targets_own_text(
    world, strategy, temperature, seed, at_the_edge, in_the_cloud, eos_bias, max_new_tokens, apart
):
    world = replace(world, compute=replace(world.compute, cloud_draft_apart=apart))
    target, draft = toy_pair(seed, at_the_edge or 0.0, eos_bias)
    config = DecodingConfig(strategy, temperature=temperature, seed=seed, silence_s=0.4)
    edge = draft if at_the_edge is not None or STRATEGIES[strategy].when_idle == "wait" else None
    cloud_model = cloud_draft(seed, in_the_cloud, eos_bias)
    if config.scheme.deterministic:
        decoder = VirtualDecoder(target, edge, config, world, cloud_draft=cloud_model)
        for name in ("first", "second"):
            asked = request(name, max_new_tokens, deadline_s=1e5)
            decoded = decoder.decode(asked)
            assert decoded.token_ids == own_text(target, asked, config.sampling_for(asked.prompt))
            assert all(0 <= stats.accepted <= stats.drafted for stats in decoded.rounds)


class NoDraws:
    """Random choices at temperature 0, where a distribution has only one token."""

    def accepts(self, probability: float, position: int) -> bool:
        return probability >= 1.0

    def pick(self, weights: Array, kind: str, position: int) -> int:
        return int(weights.argmax())


def textbook(target: ToyModel, draft: ToyModel, asked: DecodeRequest) -> tuple[int, ...]:
    def probs(model: ToyModel, text: tuple[int, ...]) -> Array:
        row = model.row(extend_digest(prompt_digest(asked.prompt), text))
        return torch.nn.functional.one_hot(row.argmax(), len(row)).double()

    def target_probs(text: tuple[int, ...], drafted: tuple[int, ...]) -> Array:
        return torch.stack([probs(target, text + drafted[:n]) for n in range(len(drafted) + 1)])

    drafts = lambda text: probs(draft, text)  # noqa: E731
    return reference.speculative_decode(
        target_probs, drafts, NoDraws(), 4, asked.max_new_tokens, target.end_ids
    )


@pytest.mark.lengthy
@schedules
@given(worlds, st.integers(0, 50), st.sampled_from([0.0, 0.7, 1.0]), st.integers(1, 40))
def test_greedy_ids_are_those_of_the_textbook_and_of_ar(world, seed, agreement, max_new_tokens):
    target, draft = toy_pair(seed, 0.5)
    cloud_model, asked = cloud_draft(seed, agreement, -1.0), request("first", max_new_tokens, deadline_s=1e5)
    texts = {
        VirtualDecoder(target, edge, DecodingConfig(strategy, silence_s=0.4), world, cloud_draft=cloud_model)
        .decode(asked)
        .token_ids
        for strategy, edge in (("outrider", draft), ("outrider", None), ("ar", None))
    }
    assert texts == {textbook(target, cloud_model, asked)}


def world(cloud_draft_token_s: float = 0.002) -> VirtualWorld:
    compute = ComputeProfile(verify_s=0.03, draft_token_s=0.01, cloud_draft_token_s=cloud_draft_token_s)
    link = LinkProfile(0.05)
    return VirtualWorld(lambda frame: wire_bytes(encode(frame)), compute, link, link)


def elapsed_s(
    edge: ToyModel | None, cloud_model: ToyModel | None, in_world: VirtualWorld, events=None
) -> float:
    """Return the virtual seconds of six texts for a robot with the draft model `edge`."""
    target, _ = toy_pair(3, 0.0, eos_bias=-9.0)
    config, observer = DecodingConfig(silence_s=1e3), None if events is None else events.append
    decoder = VirtualDecoder(target, edge, config, in_world, observer, cloud_model)
    return sum(decoder.decode(request(f"text {n}", deadline_s=1e5)).elapsed_s for n in range(6))


@pytest.mark.lengthy
def test_the_clouds_draft_speeds_up_a_robot_without_one():
    alone = elapsed_s(None, None, world())
    assert elapsed_s(None, cloud_draft(3, 0.9, -9.0), world()) < alone / 2.0


@pytest.mark.lengthy
def test_the_cloud_stops_drafting_if_that_does_not_pay():
    events: list[TimelineEvent] = []
    seconds = elapsed_s(None, cloud_draft(3, 0.5, -9.0), world(cloud_draft_token_s=0.05), events)
    kinds = Counter(event.kind for event in events)
    assert kinds["draft_cloud"] <= 3
    assert seconds < 1.03 * elapsed_s(None, None, world())


class Cloud:
    """A verifier with a draft model: a batch of drafts takes 1 ms, any other batch 10 ms."""

    def __init__(self, draft: ToyModel) -> None:
        self.clock = Clock()
        self.target, _ = toy_pair(1, 1.0, eos_bias=-9.0)
        self.service = VerifierService(self.target, CloudLimits(), self.clock, draft=draft)

    def batches(self) -> Iterator[tuple[list, list[Verdict]]]:
        """Yield the jobs of each batch, and the verdicts on them."""
        while jobs := self.service.next_jobs():
            results = self.service.run(jobs, lambda job, hint: False)
            took_s = 0.001 if isinstance(jobs[0], CloudDraft) else 0.01
            self.clock.now_s += took_s
            replies = frames(self.service.finish(jobs, results, took_s))
            yield jobs, [frame for frame in replies if isinstance(frame, Verdict)]

    def verdicts(self) -> list[Verdict]:
        return [verdict for _, verdicts in self.batches() for verdict in verdicts]


def test_a_draft_of_another_tokenizer_is_refused_by_name():
    stranger = ToyModel(ToySettings(vocab_size=40))
    with pytest.raises(ModelError, match=f"{stranger.name} and toy-.* have different tokenizers"):
        Cloud(stranger)


class Broken(ToyModel):
    def open_session(self):
        raise ModelError("no room")


def test_a_draft_that_fails_ends_no_text():
    cloud = Cloud(Broken(ToySettings(seed=1)))
    cloud.service.receive(ALICE, opening(**USEFUL))
    assert sum(len(verdict.tokens) for verdict in cloud.verdicts()) == 20
    assert cloud.service.stats.failed_jobs == 1


def test_a_verdict_counts_only_the_edges_drafts_as_judged():
    cloud = Cloud(cloud_draft(1, 1.0, -9.0))
    cloud.service.receive(ALICE, opening(**USEFUL))
    verdicts = cloud.verdicts()
    assert max(len(verdict.tokens) for verdict in verdicts) > 1
    assert {verdict.drafted for verdict in verdicts} == {0}


def test_the_drafts_of_robots_are_made_in_one_forward():
    cloud = Cloud(cloud_draft(1, 1.0, -9.0))
    for peer in (ALICE, BOB):
        cloud.service.receive(peer, opening(**USEFUL))
    sizes = Counter(len(jobs) for jobs, _ in cloud.batches() if isinstance(jobs[0], CloudDraft))
    assert sizes[2] > sizes[1]


def test_wrong_drafts_of_the_robot_are_replaced_by_the_clouds():
    """The cloud's draft is right, the robot's is wrong: nearly every verification yields several tokens."""
    cloud, length, yields = Cloud(cloud_draft(1, 1.0, -9.0)), 0, []
    cloud.service.receive(ALICE, opening(max_new_tokens=120, **USEFUL))
    for _, verdicts in cloud.batches():
        for verdict in verdicts:
            length += len(verdict.tokens)
            yields.append(len(verdict.tokens))
            cloud.service.receive(ALICE, Draft(5, 1, length, None, pack_runs([Run(0, (1, 2, 3, 4), True)])))
    assert sum(yields[5:]) / len(yields[5:]) > 3.0


CERTAIN = Ready(1.0, False)


@pytest.mark.parametrize(
    ("draft", "own", "price", "expected"),
    [
        ([], 0.9, Price(1.0, 0.01), (0, 6)),
        ([], 0.9, Price(1.0, 10.0), (0, 0)),
        ([CERTAIN, CERTAIN], 0.0, Price(1.0, 0.01), (2, 0)),
        ([Ready(0.05, False), CERTAIN], 0.9, Price(1.0, 0.01), (0, 6)),
        ([Ready(0.05, True), CERTAIN], 0.9, Price(1.0, 0.01), (2, 4)),
        ([Ready(0.0, False)] * 3, 0.0, Price(1.0, 0.01), (3, 0)),
    ],
)
def test_ready_tokens_are_verified_and_continued_as_far_as_it_pays(draft, own, price, expected):
    extent = best_extent(draft, own, 6, price, lambda length: 1.0)
    assert (extent.ready, extent.more) == expected


def test_a_cloud_draft_ends_where_further_rows_do_not_pay():
    cheap, dear = (
        best_extent([], 0.8, 16, Price(2.0, 0.01), lambda length, row_s=row_s: 1.0 + row_s * length)
        for row_s in (0.0, 0.2)
    )
    assert dear.more < cheap.more


@pytest.mark.parametrize("acceptance", ["rejection", "split", "sparse"])
def test_nothing_is_drafted_for_a_scheme_that_needs_the_edges_evidence(acceptance):
    cloud = Cloud(cloud_draft(1, 1.0, -9.0))
    cloud.service.receive(ALICE, opening(when_idle="adaptive", acceptance=acceptance))
    jobs = [job for batch, _ in cloud.batches() for job in batch]
    assert len(jobs) > 10 and not any(isinstance(job, CloudDraft) for job in jobs)
