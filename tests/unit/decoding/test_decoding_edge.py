"""The edge machine alone: frames in, actions out."""

from __future__ import annotations

import pytest
import torch
from support.toys import JPEG

from outrider.core.errors import BusyError, ConfigError, FrameError, LinkError, ModelError, ProtocolError
from outrider.core.frames import (
    MAX_CHUNK_TOKENS,
    Cancel,
    Draft,
    Hint,
    Open,
    Opened,
    PrefillAgain,
    Proposal,
    Refused,
    Resume,
    Rules,
    Unsettled,
    Verdict,
)
from outrider.core.values import Prompt
from outrider.decoding.branch_pool import BranchPool
from outrider.decoding.config import DecodingConfig
from outrider.decoding.digest import extend_digest, prompt_digest
from outrider.decoding.edge import Commit, EdgeMachine, Fail, Send
from outrider.decoding.estimates import DraftOdds
from outrider.decoding.jobs import Choices
from outrider.decoding.outlook import MARGIN
from outrider.decoding.packing import pack_residue, pack_target_row, pack_token_probs
from outrider.decoding.sparse import SparseResidue, TailDraws
from outrider.decoding.token_runs import Run, pack_runs, unpack_runs
from outrider.decoding.toy import ToyTokenizer
from outrider.wire.codec import decode_edge_frame, encode

PROMPT = Prompt("find the chair", JPEG)
ROOT = prompt_digest(PROMPT)
TOKENIZER = ToyTokenizer(32)


def edge(max_new_tokens: int = 20, **options) -> EdgeMachine:
    """A machine that has sent its Open at 0 s; greedy `sd` where nothing else is asked for."""
    options = {"strategy": "sd", "acceptance": "greedy", **options}
    machine = EdgeMachine(5, DecodingConfig(**options), TOKENIZER)
    machine.begin(PROMPT, max_new_tokens, 0.0)
    return machine


def prefill(machine: EdgeMachine, now_s: float = 0.0) -> list:
    return machine.complete(machine.next_job(), (), now_s, 0.01)


def grow(
    machine: EdgeMachine, *choices: tuple[int, ...], now_s: float = 0.0, compute_s: float = 0.01
) -> list:
    """Let the machine's next job answer with these choices, one tuple for each of its prefixes."""
    return machine.complete(machine.next_job(), [Choices(some) for some in choices], now_s, compute_s)


def draft(machine: EdgeMachine, *tokens: int) -> list:
    """Prefill, then let the machine's jobs answer with these tokens."""
    actions = prefill(machine)
    for token in tokens:
        actions += grow(machine, (token,))
    return actions


def verdict(
    text: tuple[int, ...], base: int, drafted: int = 0, epoch: int = 1, passes: int = 1, verify_us: int = 10
) -> Verdict:
    """The text after `base` is final."""
    digest = extend_digest(ROOT, text[:base])
    return Verdict(5, epoch, base, digest, text[base:], drafted, passes, verify_us)


def drafted(text: tuple[int, ...], *tokens: int) -> Send:
    """A Draft of one branch after a text."""
    return Send(Draft(5, 1, len(text), None, pack_runs([Run(0, tokens)])))


def test_open_carries_the_prompt_and_a_whole_chunk_is_sent_once():
    config = DecodingConfig(strategy="sd", acceptance="greedy", num_draft_tokens=2, wanted_model="large")
    machine = EdgeMachine(5, config, TOKENIZER)
    rules = Rules("wait", "greedy", 0.0, 1.0, config.sampling_for(PROMPT).seed, True, "none", "confidence")
    assert machine.begin(PROMPT, 20, 0.0) == [
        Send(Open(5, 1, ROOT, PROMPT.text, JPEG, (), 20, TOKENIZER.fingerprint, rules, "large"))
    ]
    assert prefill(machine) == []
    assert grow(machine, (3,)) == []
    assert grow(machine, (4,)) == [drafted((), 3, 4)]
    assert machine.next_job() is None


def test_a_verdict_commits_accepted_drafts_and_the_targets_token():
    machine = edge(num_draft_tokens=3)
    draft(machine, 3, 4, 5)
    answer = verdict((3, 4, 9), 0, drafted=3)
    actions = machine.receive(answer, 1.0)
    assert actions == [Commit((3, 4, 9), 3, 2, answer)]
    assert (actions[0].rejected, actions[0].ahead) == ((5,), ())
    assert machine.next_job().prefixes == ((3, 4, 9),)


def test_drafting_stops_at_the_end_token_and_before_the_last():
    machine = edge(num_draft_tokens=4)
    assert draft(machine, 3, 0) == [drafted((), 3, 0)]
    assert machine.next_job() is None
    machine = edge(num_draft_tokens=4, max_new_tokens=3)
    assert draft(machine, 3, 4) == [drafted((), 3, 4)]
    assert machine.next_job() is None


def test_doubled_late_and_foreign_frames_change_nothing():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    answer = verdict((3, 9), 0, drafted=1)
    machine.receive(answer, 1.0)
    assert machine.receive(answer, 1.0) == []
    assert machine.receive(verdict((3, 9, 1), 2, epoch=0), 1.0) == []
    assert machine.receive(Refused(6, 1, "busy", "not for us"), 1.0) == []
    assert machine.tokens == (3, 9)


def test_verdicts_out_of_order_are_kept_and_the_gap_is_asked_for_once():
    machine = edge(strategy="ar")
    machine.receive(Opened(5, 1, 0, ROOT, 100), 1.0)
    text = (3, 4, 5, 6)
    assert machine.receive(verdict(text, 2), 1.0) == [Send(Resume(5, 1, 0, ROOT))]
    assert machine.receive(verdict(text, 3), 1.0) == []
    committed = machine.receive(verdict(text[:2], 0), 1.0)
    assert [commit.tokens for commit in committed] == [(3, 4), (5, 6)]


def test_a_verdict_with_a_wrong_digest_is_not_believed():
    machine = edge(strategy="ar")
    wrong = Verdict(5, 1, 0, 123, (3,), 0, 1, 10)
    assert isinstance(machine.receive(wrong, 1.0)[0].frame, Open)
    assert machine.tokens == ()


def test_prefill_again_sends_the_text_so_far_and_the_waiting_chunk():
    machine = edge(num_draft_tokens=1)
    draft(machine, 3)
    machine.receive(verdict((3, 9), 0, drafted=1), 1.0)
    grow(machine, (7,), now_s=1.0)
    frames = [action.frame for action in machine.receive(PrefillAgain(5, 1), 1.0)]
    assert isinstance(frames[0], Open)
    assert frames[0].tokens == (3, 9)
    assert frames[1:] == [drafted((3, 9), 7).frame]


def test_passes_before_a_restart_still_count():
    machine = edge(strategy="ar")
    machine.receive(verdict((3,), 0), 1.0)
    machine.receive(PrefillAgain(5, 1), 1.0)
    machine.receive(verdict((3, 4), 1), 1.0)
    assert machine.target_passes == 2


def test_nothing_counts_after_the_end_token():
    machine = edge(strategy="ar")
    machine.receive(verdict((3, 0, 4), 0), 1.0)
    assert machine.tokens == (3, 0)
    assert machine.done
    assert machine.ask_again(1.0) == [] == machine.cancel()


def test_a_job_from_before_a_verdict_or_a_new_text_is_dropped():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3)
    stale = machine.next_job()
    machine.receive(verdict((5,), 0), 1.0)
    assert machine.complete(stale, [Choices((4,))], 1.0, 0.01) == []
    assert machine.next_job().prefixes == ((5,),)
    machine.begin(PROMPT, 20, 2.0)
    assert machine.complete(stale, [Choices((4,))], 2.0, 0.01) == []


def test_cancel_tells_the_cloud_and_ends_the_text():
    machine = edge()
    assert machine.cancel() == [Send(Cancel(5, 1))]
    assert machine.next_job() is None
    assert machine.receive(verdict((3,), 0), 1.0) == []


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("frame", FrameError),
        ("config", ConfigError),
        ("model", ModelError),
        ("protocol", ProtocolError),
        ("internal", LinkError),
    ],
)
def test_a_refusal_becomes_the_right_error(reason, error):
    [failure] = edge().receive(Refused(5, 1, reason, "because"), 1.0)
    assert isinstance(failure, Fail)
    assert type(failure.error) is error
    assert "because" in str(failure.error)


def test_a_busy_verifier_is_asked_again_after_a_while_and_not_at_once():
    machine = edge()
    assert machine.receive(Refused(5, 1, "busy", "all taken"), 1.0) == []
    assert isinstance(machine.turned_away, BusyError)
    assert machine.receive(PrefillAgain(5, 1), 1.1) == [], "an answer to drafts that were under way"
    [again, *_] = machine.ask_again(3.0)
    assert isinstance(again, Send) and isinstance(again.frame, Open)
    machine.receive(Opened(5, 1, 0, ROOT, 0), 3.1)
    assert machine.turned_away is None


def test_a_busy_verifier_leaves_the_draft_to_go_on_alone_where_that_is_the_policy():
    machine = edge(link_loss="draft_only")
    draft(machine, 3, 4)
    [commit] = machine.receive(Refused(5, 1, "busy", "all taken"), 1.0)
    assert isinstance(commit, Commit) and commit.tokens == (3, 4)
    [commit] = grow(machine, (7,))
    assert isinstance(commit, Commit) and commit.tokens == (7,)


def test_a_token_beyond_the_vocabulary_is_refused():
    [failure] = edge(strategy="ar").receive(verdict((32,), 0), 1.0)
    assert isinstance(failure.error, ProtocolError)


def test_alone_only_where_the_policy_allows():
    assert edge().go_alone(1.0) == []
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    draft(machine, 3)
    assert machine.go_alone(1.0) == [Commit((3,), 0, 0, None)]
    assert grow(machine, (4,)) == [Commit((4,), 0, 0, None)]
    [opening] = machine.ask_again(2.0)
    assert opening.frame.tokens == (3, 4)
    assert machine.next_job().prefixes == ((3, 4),)
    assert grow(machine, (5,)) == []
    assert grow(machine, (6,)) == [drafted((3, 4), 5, 6)]


@pytest.mark.parametrize("strategy", ["sd", "fsd", "outrider"])
def test_alone_it_commits_the_drafts_own_text_up_to_its_length(strategy):
    machine = edge(strategy=strategy, link_loss="draft_only", num_draft_tokens=2, max_new_tokens=5)
    prefill(machine)
    grow(machine, (3, 9))
    actions = machine.go_alone(1.0)
    while not machine.done:
        actions += grow(machine, (machine.tokens[-1] + 1, 9))
    assert [action.tokens for action in actions] == [(3,), (4,), (5,), (6,), (7,)]
    assert machine.tokens == (3, 4, 5, 6, 7)


def test_a_verdict_that_contradicts_what_it_wrote_alone_is_overruled():
    machine = edge(link_loss="draft_only", num_draft_tokens=2)
    draft(machine, 3)
    machine.go_alone(1.0)
    [opening] = machine.receive(verdict((8,), 0), 2.0)
    assert opening.frame.tokens == (3,) == machine.tokens


def test_a_storm_of_prefill_again_opens_once():
    """Drafts that overtake the Open are each answered so."""
    machine = edge(silence_s=2.0)
    answers = [machine.receive(PrefillAgain(5, 1), 0.01 * number) for number in range(20)]
    assert answers == [[]] * 20
    assert isinstance(machine.receive(PrefillAgain(5, 1), 1.0)[0].frame, Open)
    assert machine.receive(PrefillAgain(5, 1), 1.1) == []
    machine.receive(Opened(5, 1, 0, ROOT, 100), 1.2)
    assert isinstance(machine.receive(PrefillAgain(5, 1), 1.3)[0].frame, Open)
    assert machine.receive(PrefillAgain(5, 1), 1.4) == []


def test_after_silence_it_repeats_what_may_be_lost():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3, 4)
    assert [type(action.frame) for action in machine.ask_again(1.0)] == [Open, Draft]
    machine.receive(Opened(5, 1, 0, ROOT, 100), 1.5)
    assert machine.ask_again(2.0) == [Send(Resume(5, 1, 0, ROOT)), drafted((), 3, 4)]


def test_an_answer_that_says_nothing_new_changes_nothing():
    machine = edge(num_draft_tokens=2)
    draft(machine, 3, 4)
    assert machine.receive(verdict((), 0), 1.0) == []
    machine.receive(verdict((3, 9), 0, drafted=2), 1.0)
    assert machine.receive(verdict((3, 9), 2), 1.0) == []
    assert machine.receive(verdict((3,), 0), 1.0) == []
    assert machine.tokens == (3, 9)


def test_statistics_of_the_verifier_are_passed_on():
    machine = edge(strategy="ar")
    machine.receive(Opened(5, 1, 0, ROOT, 250_000), 1.0)
    assert machine.target_prefill_s == pytest.approx(0.25)
    machine.receive(verdict((3,), 0, passes=4), 1.0)
    machine.receive(verdict((3, 4), 0, passes=3), 1.0)
    assert machine.target_passes == 4


def test_sd_drafts_whole_chunks_and_is_silent_until_the_verdict():
    machine = edge(num_draft_tokens=3)
    assert draft(machine, 3, 4) == []
    assert grow(machine, (5,)) == [drafted((), 3, 4, 5)]
    assert machine.next_job() is None
    assert machine.receive(hint((3, 8)), 1.0) == []
    assert machine.next_job() is None
    assert len(machine.receive(verdict((3, 4, 5, 6), 0, drafted=3), 1.0)) == 1
    assert machine.next_job().prefixes == ((3, 4, 5, 6),)
    assert machine.next_job().num_choices == 1


def hint(tokens: tuple[int, ...], confidence: int = 80, exit_index: int = 1, base: int = 0) -> Hint:
    return Hint(5, 1, base, exit_index, confidence, tokens)


def test_fsd_drafts_on_hints_while_it_waits_and_a_hit_leaves_at_once():
    machine = edge(strategy="fsd", num_draft_tokens=2)
    draft(machine, 3, 4)
    assert machine.next_job() is None
    assert machine.receive(hint((3, 9)), 1.0) == []
    assert machine.next_job().prefixes == ((3, 9),)
    assert grow(machine, (5,)) == grow(machine, (6,)) == []
    assert machine.next_job() is None
    answer = verdict((3, 9), 0, drafted=2)
    assert machine.receive(answer, 2.0) == [
        Commit((3, 9), 2, 1, answer, foreseen=True, exit=1),
        drafted((3, 9), 5, 6),
    ]


def test_fsd_misses_where_no_hint_was_right():
    machine = edge(strategy="fsd", num_draft_tokens=2)
    draft(machine, 3, 4)
    machine.receive(hint((3, 9)), 1.0)
    grow(machine, (5,))
    answer = verdict((3, 8), 0, drafted=2)
    assert machine.receive(answer, 2.0) == [Commit((3, 8), 2, 1, answer)]
    assert machine.next_job().prefixes == ((3, 8),)


def test_a_hit_is_the_first_exits_that_said_so():
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
    for one in (hint((9,), base=2), hint((32,)), hint(())):
        assert machine.receive(one, 1.0) == []
    assert machine.next_job() is None


def opened_outrider(**options) -> EdgeMachine:
    """After a link of 0.2 s and a verification were measured; it drafts four branches at a time."""
    machine = edge(strategy="outrider", num_draft_tokens=2, workers=4, **options)
    machine.receive(Opened(5, 1, 0, ROOT, 100_000), 0.3)
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
    assert (9, 11, 12) in told(sent), "the branch on the hint lies at the cloud before the verdict"
    [commit, *after] = machine.receive(verdict((9,), 0), 0.5)
    assert (commit.tokens, commit.foreseen, commit.exit) == ((9,), True, 1)
    assert machine.next_job().prefixes[0][:3] == (9, 11, 12)
    assert (9, 11) not in told(after, (9,)), "what lies there is not sent again"


def test_a_hint_that_overtakes_what_was_told_comes_first_at_the_cloud():
    """From the edge's tree over the bytes of its frames to the cloud's pool."""
    machine = opened_outrider()
    pool = BranchPool()

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
    assert pool.holds(ROOT, (10, 11))


def beside_a_stepping_cloud() -> EdgeMachine:
    """One-way 0.1 s; a step takes 40 ms and a verification 50 ms. The last verdict left at 1.0 s."""
    machine = opened_outrider()
    machine.receive(verdict((3,), 0), 0.5)
    machine.receive(verdict((3, 4, 5), 1, drafted=1, verify_us=50_000), 1.0)
    machine.receive(verdict((3, 4, 5, 6), 3, verify_us=40_000), 1.1)
    return machine


def test_a_draft_that_grows_no_more_is_kept_until_it_is_just_in_time():
    """The cloud looks at 1.04, 1.08 ... s; what is drafted at 1.2 s arrives for its look at 1.32 s."""
    machine = beside_a_stepping_cloud()
    assert grow(machine, (8,), now_s=1.19) == []
    assert machine.next_look_s is None, "it still grows"
    assert grow(machine, (0,), now_s=1.2) == []
    assert machine.next_job() is None
    look_s = machine.next_look_s
    assert look_s == pytest.approx(1.32 - 0.1 - MARGIN * 0.05)
    assert machine.look(look_s - 1e-3) == []
    assert machine.next_look_s == pytest.approx(look_s)
    assert machine.look(look_s) == [drafted((3, 4, 5, 6), 8, 0)]
    assert machine.next_look_s is None
    assert machine.look(look_s + 1.0) == [], "once is enough"


def test_a_hint_changes_what_would_have_left():
    machine = beside_a_stepping_cloud()
    grow(machine, (0,), now_s=1.2)
    assert machine.receive(hint((9,), confidence=99, base=4), 1.21) == []
    assert machine.next_job().prefixes == ((3, 4, 5, 6, 9),)
    grow(machine, (0,), now_s=1.212)
    [sent] = machine.look(machine.next_look_s)
    assert unpack_runs(sent.frame.runs)[0].tokens == (9, 0)


def test_a_text_that_has_ended_is_looked_at_no_more():
    machine = beside_a_stepping_cloud()
    for token in (7, 8, 0):
        grow(machine, (token,), now_s=1.2)
    assert machine.next_look_s is not None
    machine.receive(verdict((3, 4, 5, 6, 0), 4), 1.21)
    assert machine.done
    assert machine.next_look_s is None
    assert machine.look(1.3) == []


def told(actions: list, text: tuple[int, ...] = ()) -> set[tuple[int, ...]]:
    """The texts that the Drafts among these actions tell, given what they may grow from."""
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


def settling(scheme: str) -> tuple[EdgeMachine, list[torch.Tensor]]:
    """A machine whose drafts 3, 4 were drawn from these rows and sent."""
    machine = edge(strategy="sd", acceptance=scheme, temperature=1.0, num_draft_tokens=2)
    rows = [one_hot(3), one_hot(4)]
    prefill(machine)
    for token, row in zip((3, 4), rows, strict=True):
        actions = machine.complete(machine.next_job(), [Choices((token,), row)], 0.0, 0.01)
    assert actions == [Send(proposal((), None, (3, 4)))]
    return machine, rows


def one_hot(token: int) -> torch.Tensor:
    row = torch.zeros(32, dtype=torch.float64)
    row[token] = 1.0
    return row


def proposal(text: tuple[int, ...], settled: int | None, tokens: tuple[int, ...]) -> Proposal:
    """With tokens that were drawn with certainty."""
    evidence = pack_token_probs([1.0] * len(tokens))
    return Proposal(5, 1, len(text), extend_digest(ROOT, text), settled, tokens, evidence)


def unsettled(text: tuple[int, ...], base: int, residue: bytes) -> Unsettled:
    return Unsettled(5, 1, base, extend_digest(ROOT, text[:base]), text[base:], 2, 1, 10, residue)


def test_an_unsettled_text_is_settled_and_the_cloud_told_until_it_answers():
    machine, _ = settling("split")
    answer = unsettled((3,), 0, pack_target_row(one_hot(9)))
    assert machine.receive(answer, 1.0) == [Commit((3, 9), 2, 1, answer)]
    assert machine.receive(answer, 1.0) == []
    machine.complete(machine.next_job(), [Choices((5,), one_hot(5))], 1.0, 0.01)
    sent = machine.complete(machine.next_job(), [Choices((6,), one_hot(6))], 1.0, 0.01)
    assert sent == [Send(proposal((3,), 9, (5, 6)))]
    machine.receive(Opened(5, 1, 0, ROOT, 10), 1.0)
    asked, repeated = machine.ask_again(3.0)
    assert asked.frame == Resume(5, 1, 1, extend_digest(ROOT, (3,)))
    assert repeated == sent[0]
    machine.receive(verdict((3, 9, 5, 6, 7), 2, drafted=2), 4.0)
    machine.complete(machine.next_job(), [Choices((5,), one_hot(5))], 1.0, 0.01)
    sent = machine.complete(machine.next_job(), [Choices((6,), one_hot(6))], 1.0, 0.01)
    assert sent == [Send(proposal((3, 9, 5, 6, 7), None, (5, 6)))]


def test_draws_that_run_out_are_asked_for():
    machine, _ = settling("sparse")
    # Nearly all of P is tail, and a draw of 3, where the draft had all its mass, is always turned down.
    half = SparseResidue((7,), (2.0**-32,), TailDraws(0, (3,) * 4, (0.25,) * 4))
    assert machine.receive(unsettled((), 0, pack_residue(half)), 1.0) == [Send(Resume(5, 1, 0, ROOT, 4))]
    assert machine.tokens == ()
    more = SparseResidue((7,), (2.0**-32,), TailDraws(4, (3, 9, 3, 3), (0.25,) * 4))
    answer = unsettled((), 0, pack_residue(more))
    assert machine.receive(answer, 1.0) == [Commit((9,), 2, 0, answer)]


def test_bytes_that_are_no_residue_are_a_protocol_error():
    machine, _ = settling("split")
    [failure] = machine.receive(unsettled((3,), 0, b"\x05"), 1.0)
    assert isinstance(failure, Fail)
    assert isinstance(failure.error, ProtocolError)
    assert machine.done


def test_a_verdict_stays_committed_where_the_residue_kept_for_after_it_is_none():
    machine, _ = settling("split")
    machine.receive(unsettled((3,), 1, b"\x05"), 1.0)
    committed, failure = machine.receive(verdict((3,), 0, drafted=1), 1.0)
    assert committed.tokens == (3,) == machine.tokens
    assert isinstance(failure.error, ProtocolError)


@pytest.mark.parametrize("kind", ["never drafted", "another text"])
def test_a_storm_of_verdicts_on_a_text_that_is_not_its_own_opens_now_and_then(kind):
    machine = edge(acceptance="split", temperature=1.0, silence_s=2.0)
    prefill(machine)
    machine.complete(machine.next_job(), [Choices((3,), one_hot(3))], 0.0, 0.01)
    stranger = {
        "never drafted": unsettled((7,), 0, pack_target_row(one_hot(9))),
        "another text": Verdict(5, 1, 0, ROOT + 1, (5,), 0, 1, 10),
    }[kind]
    opens = []
    for number in range(40):
        now_s = 0.05 * number
        opens += [now_s for action in machine.receive(stranger, now_s) if isinstance(action.frame, Open)]
    assert opens == pytest.approx([0.5, 1.0, 1.5], abs=0.06)
    assert machine.tokens == ()


def test_a_token_settled_before_going_on_alone_is_no_longer_special():
    """The Open that follows holds it and more; to name it again would name a text that never was."""
    machine = edge(acceptance="split", num_draft_tokens=1, link_loss="draft_only", temperature=1.0)
    prefill(machine)
    machine.complete(machine.next_job(), [Choices((3,), one_hot(3))], 0.0, 0.01)
    machine.receive(unsettled((), 0, pack_target_row(one_hot(9))), 1.0)
    machine.go_alone(2.0)
    machine.complete(machine.next_job(), [Choices((5,), one_hot(5))], 2.0, 0.01)
    assert machine.tokens == (9, 5)
    assert [type(action.frame) for action in machine.ask_again(3.0)] == [Open]
    sent = machine.complete(machine.next_job(), [Choices((6,), one_hot(6))], 3.0, 0.01)
    assert sent == [Send(proposal((9, 5), None, (6,)))]


@pytest.mark.parametrize("strategy", ["sd", "dssd", "fsd", "picospec", "outrider"])
def test_whatever_is_repeated_after_a_silence_fits_the_wire(strategy):
    """Long drafts, of a vocabulary whose ids take three bytes, with rivals all along."""
    config = DecodingConfig(strategy=strategy, num_draft_tokens=MAX_CHUNK_TOKENS, workers=8)
    machine = EdgeMachine(5, config, ToyTokenizer(20_000))
    actions = machine.begin(PROMPT, 2000, 0.0)
    prefill(machine)
    row = torch.zeros(20_000, dtype=torch.float64)
    row[19_000] = 1.0
    machine._outlook.odds = DraftOdds((1.0, 1.0))
    machine._outlook._purse.earn(10**9)
    machine.receive(hint((19_999,), confidence=50), 0.0)
    for _ in range(700):
        job = machine.next_job()
        if job is not None:
            choices = [Choices((19_000, 19_001)[: job.num_choices], row) for _ in job.prefixes]
            actions += machine.complete(job, choices, 0.0, 0.01)
    actions += machine.ask_again(5.0)
    assert len(actions) >= 3
    for action in actions:
        assert decode_edge_frame(encode(action.frame)) == action.frame
