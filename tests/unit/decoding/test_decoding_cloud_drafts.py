"""The cloud machine alone: which drafts it judges, when a token settles, and what it does without drafts."""

from __future__ import annotations

from cloud_machine import (
    ALICE,
    ROOT,
    Clock,
    draft,
    frames,
    next_job,
    opened,
    opening,
    own,
    proposal,
    service,
    step,
)
from support.toy_models import ToyModel, ToySettings

from outrider.core.frames import Draft, Opened, Resume, Unsettled, Verdict
from outrider.decoding.acceptance.packing import unpack_residue, unpack_target_row
from outrider.decoding.acceptance.schemes import SCHEMES
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import extend_digest


def test_a_draft_is_judged_once():
    cloud = service()
    text = own()
    opened(cloud)
    wrong = (text[2] + 1) % 32
    frame = draft(0, (*text[:2], wrong))
    assert cloud.receive(ALICE, frame) == cloud.receive(ALICE, frame) == []
    [verdict] = frames(step(cloud))
    assert verdict == Verdict(5, 1, 0, ROOT, text[:3], 3, 1, verdict.verify_us)
    assert step(cloud) == []
    assert cloud.receive(ALICE, frame) == []
    assert step(cloud) == []


def test_the_longest_waiting_branch_is_verified():
    cloud = service()
    text = own()
    opened(cloud)
    wrong = (text[0] + 1) % 32
    for branches in ((text[:2],), ((wrong,), text[:5]), (text[:3],)):
        cloud.receive(ALICE, draft(0, *branches))
    [verdict] = frames(step(cloud))
    assert (verdict.drafted, verdict.tokens) == (5, text[:6])


def test_a_draft_for_the_last_token_of_all_asks_for_that_token():
    """An edge that went on alone may have drafted that token; a cloud that waits for drafts gets no other."""
    cloud = service()
    text = own()
    opened(cloud, tokens=text[:19])
    cloud.receive(ALICE, draft(19, text[19:20], digest=extend_digest(ROOT, text[:19])))
    [verdict] = frames(step(cloud))
    assert (verdict.drafted, verdict.tokens) == (0, text[19:20])
    assert step(cloud) == []


def test_a_draft_that_overtakes_the_prefill_is_kept():
    cloud = service()
    text = own()
    cloud.receive(ALICE, opening())
    assert cloud.receive(ALICE, draft(0, text[:3])) == []
    assert isinstance(frames(step(cloud))[0], Opened)
    assert frames(step(cloud))[0].tokens == text[:4]


def test_a_draft_of_an_older_text_is_ignored():
    """Answering it with PrefillAgain would make an edge with many drafts in flight send its picture again."""
    cloud = service()
    text = own()
    opened(cloud)
    cloud.receive(ALICE, draft(0, text[:3]))
    step(cloud)
    late = Draft(5, 1, 1, extend_digest(ROOT, text[:1]), pack_runs([Run(0, (text[1], 9))]))
    assert cloud.receive(ALICE, late) == []
    assert step(cloud) == []


def test_branches_sent_before_the_verdict_are_verified_next():
    cloud = service()
    text = own()
    opened(cloud)
    cloud.receive(ALICE, Draft(5, 1, 3, extend_digest(ROOT, text[:3]), pack_runs([Run(0, text[3:6])])))
    assert step(cloud) == []
    cloud.receive(ALICE, draft(0, text[:2]))
    assert [frames(step(cloud))[0].tokens for _ in range(2)] == [text[:3], text[3:7]]


def test_an_empty_draft_asks_for_a_step():
    cloud = service()
    opened(cloud)
    assert step(cloud) == []
    cloud.receive(ALICE, draft(0))
    [verdict] = frames(step(cloud))
    assert (verdict.tokens, verdict.drafted, verdict.passes) == (own()[:1], 0, 0)
    assert step(cloud) == [], "one step, not more"


def test_a_settled_token_is_committed_at_a_verifier_that_lost_the_residue():
    """After a restart, with an Open from before the token was settled, no other frame names the token."""
    cloud = service()
    text = own()
    opened(cloud, acceptance="split")
    assert cloud.receive(ALICE, proposal((), text[1:3], settled=text[0])) == []
    [verdict] = frames(step(cloud))
    assert (verdict.base, verdict.tokens) == (1, text[1:4])


def test_a_settled_token_counts_only_after_the_text_that_it_follows():
    cloud = service()
    text = own()
    wrong = text[1] % 31 + 1
    opened(cloud, acceptance="split")
    cloud.receive(ALICE, proposal((9,), (text[2],), settled=text[0]))
    assert step(cloud) == [], "that was another text"
    cloud.receive(ALICE, proposal((), (text[0], wrong)))
    [verdict] = frames(step(cloud))
    assert isinstance(verdict, Unsettled)
    assert (verdict.base, verdict.tokens, verdict.drafted) == (0, text[:1], 2)
    assert int(unpack_target_row(verdict.residue, 32).argmax()) == text[1]
    assert step(cloud) == [], "the text waits for the edge"
    cloud.receive(ALICE, proposal((), (), settled=9))
    assert step(cloud) == [], "that was another text"
    settled = proposal(text[:1], text[2:4], settled=text[1])
    for _ in range(2):
        assert cloud.receive(ALICE, settled) == []
    [verdict] = frames(step(cloud))
    assert isinstance(verdict, Verdict)
    assert (verdict.base, verdict.tokens) == (2, text[2:5])
    assert step(cloud) == []
    cloud.receive(ALICE, proposal(text[:4], (), settled=7))
    [verdict] = frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT)))
    assert verdict.tokens == text[:5]


def test_an_unsettled_verdict_is_repeated_with_the_draws_asked_for():
    model = ToyModel(ToySettings(seed=1, vocab_size=64, eos_bias=-9.0))
    cloud = VerifierService(model, CloudLimits(), Clock())
    opened(cloud, acceptance="sparse", temperature=3.0, tokenizer=model.tokenizer.fingerprint)
    token = int(model.row(ROOT).argmin())
    cloud.receive(ALICE, proposal((), (token,)))
    [first] = frames(step(cloud))
    assert isinstance(first, Unsettled)
    residue = unpack_residue(first.residue, 64)
    assert residue.draws.first == 0
    resume = Resume(5, 1, 0, ROOT, residue.draws.end)
    [more] = frames(cloud.receive(ALICE, resume))
    refilled = unpack_residue(more.residue, 64)
    assert (more.tokens, more.drafted) == (first.tokens, 0)
    assert refilled.head_ids == residue.head_ids
    assert refilled.draws.first == residue.draws.end
    assert len(refilled.draws.ids) == len(residue.draws.ids) == SCHEMES["sparse"].num_draws
    assert frames(cloud.receive(ALICE, resume)) == [more]


def test_an_adaptive_cloud_steps_to_the_end_of_the_text():
    cloud = service()
    opened(cloud, when_idle="adaptive", max_new_tokens=6)
    tokens = [token for _ in range(6) for token in frames(step(cloud))[0].tokens]
    assert tuple(tokens) == own(6)
    assert next_job(cloud) is None
    assert cloud.max_wait_s() is None
    cloud.receive(ALICE, draft(0, own(6)))
    assert next_job(cloud) is None
