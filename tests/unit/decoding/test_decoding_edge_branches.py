"""The edge machine alone: it drafts ahead on hints and on its own guesses, and sends the drafts in time."""

from __future__ import annotations

import pytest
from edge_machine import ROOT, draft, drafted, edge, grow, hint, prefill, verdict

from outrider.core.frames import Draft, Opened
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.cloud.branch_cache import BranchCache
from outrider.decoding.edge.actions import Commit, Send
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.protocol.branch_codec import unpack_runs
from outrider.decoding.protocol.prefix_digest import extend_digest


def test_fsd_drafts_after_hints_while_it_waits_and_sends_a_hit_at_once():
    machine = edge(strategy="fsd", num_draft_tokens=2)
    draft(machine, 3, 4)
    assert machine.next_job() is None
    assert machine.receive(hint((3, 9)), 1.0) == []
    assert machine.next_job().prefixes == ((3, 9),)
    assert grow(machine, (5,)) == grow(machine, (6,)) == []
    assert machine.next_job() is None
    answer = verdict((3, 9), 0, drafted=2)
    assert machine.receive(answer, 2.0) == [
        Commit((3, 9), 2, (True, False), answer, foreseen=True, exit=1),
        drafted((3, 9), 5, 6),
    ]


def test_fsd_misses_where_no_hint_was_right():
    machine = edge(strategy="fsd", num_draft_tokens=2)
    draft(machine, 3, 4)
    machine.receive(hint((3, 9)), 1.0)
    grow(machine, (5,))
    answer = verdict((3, 8), 0, drafted=2)
    assert machine.receive(answer, 2.0) == [Commit((3, 8), 2, (True, False), answer)]
    assert machine.next_job().prefixes == ((3, 8),)


@pytest.mark.parametrize(
    ("tokens", "judged", "drafted_by_edge", "accepted"),
    [
        ((3, 9, 5, 8), 4, 3, (True, False, True, False)),
        ((3, 9, 5, 6, 8), 4, 3, (True, False, True, True, False)),
        ((3, 9, 8), 4, 3, (True, False, False)),
        ((3, 8), 3, 3, (True, False)),
        ((8,), 3, 3, (False,)),
    ],
    ids=["a draft after it fell", "all accepted", "the first after it fell", "it fell", "all fell"],
)
def test_what_an_exit_predicted_is_no_draft_of_the_edges(tokens, judged, drafted_by_edge, accepted):
    """The verified tokens were 3, 9, 5, 6: an exit predicted 9 in place of 4, the others are drafts."""
    machine = edge(strategy="fsd", num_draft_tokens=2)
    draft(machine, 3, 4)
    machine.receive(hint((3, 9)), 1.0)
    grow(machine, (5,))
    grow(machine, (6,))
    commit = machine.receive(verdict(tokens, 0, drafted=judged), 2.0)[0]
    assert (commit.drafted, commit.is_accepted) == (drafted_by_edge, accepted)
    assert commit.followed == accepted[0]
    assert commit.rejected == ((4,) if accepted[0] else (3, 4))


def test_an_accepted_second_choice_counts_as_drafted():
    """The target's own token does not count as drafted, even if it was the second choice at that position."""
    machine = edge(strategy="outrider", num_draft_tokens=4, workers=1)
    prefill(machine)
    grow(machine, (3, 7))
    grow(machine, (4, 6))
    verified = machine.receive(verdict((7, 6), 0, drafted=2), 2.0)[0]
    assert (verified.drafted, verified.is_accepted) == (2, (True, False))
    machine = edge(strategy="outrider", num_draft_tokens=4)
    prefill(machine)
    grow(machine, (3, 7))
    own = machine.receive(verdict((7,), 0, drafted=1), 2.0)[0]
    assert (own.drafted, own.is_accepted) == (1, (False,))


def test_a_hit_is_credited_to_the_first_exit_that_predicted_it():
    machine = edge(strategy="fsd", num_draft_tokens=2)
    draft(machine, 3, 4)
    machine.receive(hint((7,), exit_index=0), 1.0)
    machine.receive(hint((3, 9), exit_index=2), 1.0)
    machine.receive(hint((3, 9), exit_index=3), 1.0)
    [commit] = machine.receive(verdict((3, 9), 0, drafted=2), 2.0)
    assert (commit.exit, commit.foreseen) == (2, False)


@pytest.mark.parametrize(
    ("order", "prefixes"),
    [("confidence", [(8,), (9,), (7,)]), ("fifo", [(7,), (8,), (9,)])],
)
def test_pre_drafts_come_in_the_order_of_the_edges_queue(order, prefixes):
    machine = edge(strategy="fsd", num_draft_tokens=1, workers=1, edge_hint_order=order)
    draft(machine, 3)
    for token, confidence in ((7, 8), (8, 60), (9, 20)):
        machine.receive(hint((token,), confidence), 1.0)
    seen = []
    while machine.next_job() is not None:
        seen += machine.next_job().prefixes
        grow(machine, (1,))
    assert seen == prefixes


def test_the_edges_own_draft_comes_before_hints_and_workers_share_a_batch():
    machine = edge(strategy="fsd", num_draft_tokens=2, workers=2)
    draft(machine, 3)
    for token in (7, 8):
        machine.receive(hint((token,)), 1.0)
    first, second = machine.next_job().prefixes
    assert first == (3,)
    assert second in ((7,), (8,))


def test_a_hint_whose_drafting_has_begun_is_finished_before_a_surer_one_is_begun():
    machine = edge(strategy="fsd", num_draft_tokens=2, workers=1)
    draft(machine, 3, 4)
    machine.receive(hint((7,), 60), 1.0)
    assert machine.next_job().prefixes == ((7,),)
    grow(machine, (1,))
    machine.receive(hint((8,), 90), 1.1)
    assert machine.next_job().prefixes == ((7, 1),)
    grow(machine, (1,))
    assert machine.next_job().prefixes == ((8,),)


def test_hints_about_another_text_or_beyond_the_vocabulary_are_ignored():
    machine = edge(strategy="fsd", num_draft_tokens=1)
    draft(machine, 3)
    for ignored in (hint((9,), base=2), hint((32,)), hint(())):
        assert machine.receive(ignored, 1.0) == []
    assert machine.next_job() is None


def opened_outrider(**options) -> EdgeMachine:
    """Return a machine that has measured a round trip of 0.2 s and drafts four branches at a time."""
    machine = edge(strategy="outrider", num_draft_tokens=2, workers=4, **options)
    machine.receive(Opened(5, 1, 0, ROOT, 100_000, (0,)), 0.3)
    prefill(machine, 0.3)
    return machine


def test_outrider_drafts_on_a_sure_hint_first_and_sends_ahead_of_the_verdict():
    machine = opened_outrider()
    grow(machine, (3, 8), now_s=0.31)
    machine.receive(hint((9,), confidence=98), 0.32)
    assert machine.next_job().prefixes[0] == (9,)
    sent = []
    for step in range(6):
        job = machine.next_job()
        choices = [Choices((10 + len(prefix), 20)) for prefix in job.prefixes]
        sent += machine.complete(job, choices, 0.33 + 0.01 * step, 0.01)
    assert (9, 11, 12) in sent_paths(sent), "the branch after the hint is sent before the verdict"
    [commit, *after] = machine.receive(verdict((9,), 0), 0.5)
    assert (commit.tokens, commit.foreseen, commit.exit) == ((9,), True, 1)
    assert machine.next_job().prefixes[0][:3] == (9, 11, 12)
    assert (9, 11) not in sent_paths(after, (9,)), "tokens that were sent are not sent again"


def test_a_branch_that_a_hint_makes_likelier_is_preferred_at_the_cloud():
    """From the edge's tree, over the bytes of its frames, to the cloud's pool."""
    machine = opened_outrider()
    pool = BranchCache()

    def draft_on(rounds: int, now_s: float) -> None:
        for number in range(rounds):
            job = machine.next_job()
            choices = [Choices((10 + len(prefix), 20)) for prefix in job.prefixes]
            for action in machine.complete(job, choices, now_s + 0.01 * number, 0.01):
                runs = unpack_runs(action.frame.runs)
                parent = ROOT if action.frame.digest is None else action.frame.digest
                pool.add_runs(action.frame.base, parent, runs)

    draft_on(3, 0.31)
    assert pool.best(ROOT, 2)[0] == (10, 11)
    machine.receive(hint((9,), confidence=98), 0.35)
    draft_on(5, 0.36)
    assert pool.best(ROOT, 2)[0] == (9, 11)
    assert pool.best(extend_digest(ROOT, (10,)), 1)[0] == (11,)


def sent_paths(actions: list, text: tuple[int, ...] = ()) -> set[tuple[int, ...]]:
    """Return the texts that the Drafts among these actions spell; they may continue any prefix of `text`."""
    texts = {extend_digest(ROOT, text[:end]): text[:end] for end in range(len(text) + 1)} | {None: text}
    for action in actions:
        if isinstance(action, Send) and isinstance(action.frame, Draft):
            trail = list(texts[action.frame.digest])
            assert len(trail) == action.frame.base
            for back, tokens, _ in unpack_runs(action.frame.runs):
                del trail[len(trail) - back :]
                for token in tokens:
                    trail.append(token)
                    texts[extend_digest(ROOT, trail)] = tuple(trail)
    return set(texts.values())


def test_outrider_guesses_its_own_second_choices():
    machine = opened_outrider()
    assert machine.next_job().num_choices == 2
    grow(machine, (3, 8), now_s=0.31)
    assert set(machine.next_job().prefixes) == {(3,), (8,)}
