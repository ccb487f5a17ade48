"""The cloud machine alone: which text it holds, which sessions it keeps, and what it refuses."""

from __future__ import annotations

import pytest
from cloud_machine import (
    ALICE,
    BOB,
    PROMPT,
    ROOT,
    draft,
    frames,
    next_job,
    opened,
    opening,
    own,
    proposal,
    run,
    service,
    step,
)

from outrider.core.errors import OutOfMemoryError
from outrider.core.frames import (
    Cancel,
    Close,
    Draft,
    Opened,
    Peer,
    Ping,
    Pong,
    PrefillAgain,
    Proposal,
    Refused,
    Resume,
    Verdict,
)
from outrider.core.pairs import checksum, checksum_text
from outrider.core.values import Prompt
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest


def test_a_lost_prefix_is_never_continued_from_an_empty_cache():
    cloud = service()
    again = [PrefillAgain(5, 1)]
    assert frames(cloud.receive(ALICE, draft(0, (1,)))) == again
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == again
    opened(cloud)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 3, ROOT))) == again
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT + 1))) == again
    for other in (draft(3, (1,), digest=extend_digest(ROOT, (1, 2, 3))), draft(0, (1,), digest=ROOT + 1)):
        assert cloud.receive(ALICE, other) == []
        assert step(cloud) == []


def test_a_request_for_another_model_is_refused_with_the_served_name():
    cloud = service()
    opened(cloud)
    [refused] = frames(cloud.receive(BOB, opening(model="target:another")))
    assert (refused.reason, refused.epoch) == ("model", 1)
    assert "'target:another'" in refused.message and "'toy-1'" in refused.message
    assert cloud.stats.open_sessions == 1
    assert frames(cloud.receive(BOB, opening(model="toy-1"))) == []
    cloud.receive(ALICE, draft(0, own()[:2]))
    assert isinstance(frames(step(cloud))[0], Opened)
    assert isinstance(frames(step(cloud))[0], Verdict)


def test_a_text_that_another_model_began_is_not_continued():
    cloud, text = service(), own()
    own_mark, other_mark = (checksum_text(checksum(name)) for name in ("toy-1", "toy-2"))
    [refused] = frames(cloud.receive(BOB, opening(tokens=text[:3], model=other_mark)))
    assert refused.reason == "model" and "another model than 'toy-1'" in refused.message
    opened(cloud, tokens=text[:3], model=own_mark)
    [word, *_] = frames(cloud.receive(ALICE, opening(tokens=text[:3])))
    assert isinstance(word, Opened) and word.model == checksum("toy-1")


def test_an_open_with_tokens_continues_after_them():
    cloud = service()
    text = own()
    opened(cloud, tokens=text[:7], when_idle="step")
    [verdict] = frames(step(cloud))
    assert (verdict.base, verdict.tokens) == (7, (text[7],))


def test_the_edges_text_replaces_the_clouds_even_during_a_job():
    """After a lost link the edge may have gone on alone."""
    cloud = service()
    opened(cloud, when_idle="step")
    text = frames(step(cloud))[0].tokens + frames(step(cloud))[0].tokens
    job = next_job(cloud)
    result = run(cloud, job)
    theirs = (text[0], text[1] % 31 + 1)
    assert theirs != text
    assert len(frames(cloud.receive(ALICE, opening(tokens=theirs, when_idle="step")))) == 1
    assert cloud.finish([job], [result], 0.1) == []
    [verdict] = frames(step(cloud))
    assert verdict.base == 2
    assert verdict.digest == extend_digest(ROOT, theirs)


def test_stale_epochs_are_dropped_and_newer_ones_replace():
    cloud = service()
    opened(cloud, epoch=3)
    assert frames(cloud.receive(ALICE, opening(epoch=2))) == []
    assert frames(cloud.receive(ALICE, draft(0, (1,), epoch=2))) == []
    assert step(cloud) == []
    opened(cloud, epoch=4)
    cloud.receive(ALICE, Cancel(5, 4))
    assert frames(cloud.receive(ALICE, opening(epoch=4))) == []
    assert step(cloud) == []


def test_the_result_of_a_cancelled_job_is_dropped():
    cloud = service()
    cloud.receive(ALICE, opening())
    job = next_job(cloud)
    cloud.receive(ALICE, Cancel(5, 1))
    assert cloud.finish([job], [run(cloud, job)], 0.1) == []


def test_the_session_table_is_bounded_and_idle_sessions_are_closed():
    cloud = service(max_sessions=1, idle_s=10.0)
    opened(cloud)
    [refusal] = frames(cloud.receive(BOB, opening()))
    assert refusal.reason == "busy"
    assert isinstance(frames(cloud.receive(BOB, Ping(0, 0)))[0], Pong)
    cloud._clock.now_s = 11.0
    opened(cloud, BOB)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [PrefillAgain(5, 1)]
    cloud.receive(BOB, Close(5, 0))
    assert cloud.stats.open_sessions == 0


def test_a_session_without_memory_is_refused_as_busy_and_removed(monkeypatch, caplog):
    cloud = service()
    opened(cloud, tokens=own()[:7], when_idle="step")

    def no_memory():
        raise OutOfMemoryError("there is not enough memory to open another session")

    with monkeypatch.context() as patch:
        patch.setattr(cloud._worker._model, "open_session", no_memory)
        cloud.receive(BOB, opening())
        answers = frames(step(cloud) + step(cloud))
    assert [answer.reason for answer in answers if isinstance(answer, Refused)] == ["busy"]
    assert [answer.tokens for answer in answers if isinstance(answer, Verdict)] == [(own()[7],)]
    assert caplog.records == []
    opened(cloud, BOB, epoch=2)


def test_refused_sessions_are_closed_when_another_peer_needs_room():
    cloud = service(max_sessions=2)
    opened(cloud, ALICE)
    strangers = [Peer("", b"stranger %d" % number) for number in range(5)]
    no_picture = opening(jpeg=b"none", digest=prompt_digest(Prompt(PROMPT.text, b"none")))
    for stranger in strangers:
        for bad, reason in ((opening(digest=ROOT + 1), "protocol"), (no_picture, "frame")):
            answers = frames([*cloud.receive(stranger, Close(5, 0)), *cloud.receive(stranger, bad)])
            [refusal] = answers or frames(step(cloud))
            assert refusal.reason == reason
            assert frames(cloud.receive(stranger, Resume(5, 1, 0, ROOT))) == [refusal]
    opened(cloud, BOB)
    [refusal] = frames(cloud.receive(strangers[-1], opening(epoch=2)))
    assert refusal.reason == "busy", "a text that is decoded keeps its session"
    cloud.receive(ALICE, Cancel(5, 1))
    [refusal] = frames(cloud.receive(strangers[-1], opening(epoch=2)))
    assert refusal.reason == "busy", "so does one that was just cancelled"


def test_bad_opens_are_refused_with_the_reason_again_and_again():
    for bad, word in [
        (opening(digest=ROOT + 1), "digest"),
        (opening(tokens=(31, 32)), "vocabulary"),
        (opening(tokens=(1,) * 21), "allowed"),
    ]:
        cloud = service()
        [refusal] = frames(cloud.receive(ALICE, bad))
        assert (refusal.reason, word in refusal.message) == ("protocol", True)
        assert step(cloud) == []
    cloud = service()
    cloud.receive(ALICE, opening(jpeg=b"none", digest=prompt_digest(Prompt(PROMPT.text, b"none"))))
    [refusal] = frames(step(cloud))
    assert refusal.reason == "frame"
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [refusal]


def test_a_text_that_outgrows_the_model_is_a_config_refusal():
    cloud = service()
    cloud.receive(ALICE, opening(max_new_tokens=4000))
    [refusal] = frames(step(cloud))
    assert refusal.reason == "config"
    assert "max_new_tokens=4000" in refusal.message


def test_an_unexpected_failure_ends_one_text_only(caplog):
    cloud = service()
    opened(cloud, ALICE)
    cloud.receive(BOB, opening())
    job = next_job(cloud)
    [refusal] = frames(cloud.finish([job], [RuntimeError("boom")], 0.0))
    assert refusal.reason == "internal"
    cloud.receive(ALICE, draft(0, (1,)))
    assert isinstance(frames(step(cloud))[0], Verdict)


def test_a_cancelled_text_is_closed_when_another_peer_needs_room():
    cloud = service(max_sessions=1, rest_s=1.0)
    opened(cloud, ALICE)
    cloud.receive(ALICE, Cancel(5, 1))
    [refusal] = frames(cloud.receive(BOB, opening()))
    assert refusal.reason == "busy", "its robot may open the next one"
    cloud._clock.now_s += 1.1
    opened(cloud, BOB)


def test_silent_peers_are_probed_when_others_need_room():
    """The probe shows the server which robots it can no longer reach."""
    cloud = service(max_sessions=2)
    opened(cloud, ALICE)
    cloud._clock.now_s += CloudLimits().probe_s
    opened(cloud, BOB, epoch=3)
    cloud._clock.now_s += 0.1
    stranger = Peer("", b"stranger")
    probe, refusal = cloud.receive(stranger, opening())
    assert (probe.peer, probe.frame.session, probe.frame.epoch) == (ALICE, 5, 1)
    assert isinstance(probe.frame, Pong) and isinstance(refusal.frame, Refused)
    [refusal] = cloud.receive(stranger, opening())
    assert refusal.peer == stranger, "it was probed just now"
    cloud._clock.now_s += CloudLimits().probe_s + 0.1
    assert {reply.peer for reply in cloud.receive(stranger, opening())} == {ALICE, BOB, stranger}
    assert cloud.receive(ALICE, Resume(5, 1, 0, ROOT)), "nothing is lost by it"


def test_a_complete_text_is_closed_when_another_peer_needs_room():
    cloud = service(max_sessions=1, rest_s=1.0)
    opened(cloud, ALICE, max_new_tokens=1, when_idle="step")
    step(cloud)
    [refusal] = frames(cloud.receive(BOB, opening()))
    assert refusal.reason == "busy", "its robot may not have received the end yet"
    cloud._clock.now_s += 1.1
    opened(cloud, BOB)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [PrefillAgain(5, 1)]


@pytest.mark.parametrize(
    ("acceptance", "frame", "word"),
    [
        ("greedy", proposal((), (1,)), "send Draft"),
        ("coupled", proposal((), (1,)), "send Draft"),
        ("rejection", draft(0, (1,)), "send Proposal"),
        ("split", draft(0, (1,)), "send Proposal"),
        ("sparse", draft(0, (1,)), "send Proposal"),
        ("greedy", draft(0, (1, 32)), "vocabulary"),
        ("split", proposal((), (1, 32)), "vocabulary"),
        ("split", proposal((), (1,), settled=32), "vocabulary"),
        ("greedy", Draft(5, 1, 0, ROOT, b"\x05"), "cut short"),
        ("split", Proposal(5, 1, 0, ROOT, None, (1, 2), b"\x00\x00"), "probabilities"),
    ],
)
def test_a_frame_against_the_rules_is_refused_with_a_reason(acceptance, frame, word):
    cloud = service()
    opened(cloud, acceptance=acceptance)
    opened(cloud, BOB, when_idle="step")
    [refusal] = frames(cloud.receive(ALICE, frame))
    assert (refusal.reason, word in refusal.message) == ("protocol", True)
    assert frames(cloud.receive(ALICE, Resume(5, 1, 0, ROOT))) == [refusal]
    assert [reply.peer for reply in step(cloud)] == [BOB]
