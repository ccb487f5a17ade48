"""Helpers for tests of a cloud machine: peers, frames for it, and its jobs one at a time."""

from __future__ import annotations

from dataclasses import replace

from support.toys import JPEG, own_text, request, toy_pair

from outrider.core.frames import Draft, Open, Opened, Peer, Proposal, Rules, Verdict
from outrider.core.values import Prompt
from outrider.decoding.acceptance.packing import pack_token_probs
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.decoding.jobs import CloudJob, CloudResult, Verify
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.tuning import DEFAULT_TUNING, AdaptiveTuning

PROMPT = Prompt("find the chair", JPEG)
ROOT = prompt_digest(PROMPT)
ALICE, BOB = Peer("", b"alice"), Peer("", b"bob")
USEFUL = {"hints": "useful", "when_idle": "adaptive"}
TRUSTING = AdaptiveTuning(min_outcome_prob=0.0)
"""Any predicted outcome may be sent as a hint and restarted for."""
HASTY = AdaptiveTuning(min_restart_gain=-1e6)
"""Restart for any outcome that an exit predicts with some confidence, at any loss."""
EAGER = replace(TRUSTING, min_restart_gain=-1e6)
"""Restart for any outcome that an exit predicts, at any loss."""


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def service(tuning: AdaptiveTuning = DEFAULT_TUNING, **limits) -> VerifierService:
    target, _ = toy_pair(1, 1.0, eos_bias=-9.0)
    return VerifierService(target, CloudLimits(**limits), Clock(), tuning=tuning)


def opening(
    epoch: int = 1,
    tokens: tuple[int, ...] = (),
    when_idle="wait",
    acceptance="greedy",
    hints: str = "none",
    digest: int | None = None,
    **changes,
) -> Open:
    digest = extend_digest(ROOT, tokens) if digest is None else digest
    values = {"text": PROMPT.text, "jpeg": JPEG, "max_new_tokens": 20, **changes}
    return Open(
        5,
        epoch,
        digest,
        values["text"],
        values["jpeg"],
        tokens,
        values["max_new_tokens"],
        values.get("tokenizer", "toy-32"),
        Rules(when_idle, acceptance, values.get("temperature", 0.0), 1.0, 0, 7, True, hints),
        values.get("model", ""),
    )


def frames(replies: list) -> list:
    return [reply.frame for reply in replies]


def step(cloud: VerifierService) -> list:
    """Run one job; return its replies, hints included, or [] if there is no job."""
    replies: list = []
    cloud.step(replies.append)
    return replies


def next_job(cloud: VerifierService) -> CloudJob | None:
    """Return the only job, or None if there is none."""
    jobs = cloud.next_jobs()
    assert len(jobs) <= 1
    return jobs[0] if jobs else None


def run(cloud: VerifierService, job: CloudJob) -> CloudResult:
    [result] = cloud.run([job], lambda job, hint: None)
    return result


def should_abort(cloud: VerifierService, job: Verify) -> bool:
    """Return whether the text of a verification asks to abort it."""
    text = cloud._machine._sessions.text_of(job.key, job.epoch)
    return text is None or text.should_abort(job)


def opened(cloud: VerifierService, peer: Peer = ALICE, **options) -> None:
    assert frames(cloud.receive(peer, opening(**options))) == []
    replies = step(cloud)
    while not replies:  # another part of a prompt, or of a text that is resumed
        replies = step(cloud)
    assert isinstance(frames(replies)[0], Opened)


def both_opened(cloud: VerifierService, **options) -> None:
    for peer in (ALICE, BOB):
        assert frames(cloud.receive(peer, opening(**options))) == []
    waiting = 2
    while waiting:
        waiting -= sum(isinstance(frame, Opened) for frame in frames(step(cloud)))


def draft(base: int, *runs: tuple[int, ...], epoch: int = 1, digest: int = ROOT) -> Draft:
    """Return a Draft of branches that all continue the same text."""
    lengths = [0, *(len(tokens) for tokens in runs)]
    return Draft(5, epoch, base, digest, pack_runs(map(Run, lengths, runs)))


def own(max_new_tokens: int = 20, temperature: float = 0.0) -> tuple[int, ...]:
    """Return the text that the service's target writes alone."""
    asked = request(PROMPT.text, max_new_tokens)
    return own_text(toy_pair(1, 1.0, -9.0)[0], asked, Sampling(temperature, 1.0, 7))


def proposal(text: tuple[int, ...], tokens: tuple[int, ...], settled: int | None = None) -> Proposal:
    """Return a Proposal of tokens drawn with probability 1, for `split` and `sparse`."""
    digest = extend_digest(ROOT, text)
    return Proposal(5, 1, len(text), digest, settled, tokens, pack_token_probs([1.0] * len(tokens)))


def branched(text: tuple[int, ...], at: int = 1, ready: int = 4) -> list[tuple[int, ...]]:
    """Return a draft that is wrong at index `at`, and a branch of the target's own tokens beyond it."""
    wrong = (*text[:at], (text[at] + 1) % 31 + 1)
    return [(*wrong, 3, 4), text[: at + 1 + ready]]


def verdicts(frames: list) -> list[tuple[int, ...]]:
    return [frame.tokens for frame in frames if isinstance(frame, Verdict)]


def practised(cloud: VerifierService) -> VerifierService:
    """Return a service whose robot has decoded a text.

    Steps took 0.05 s and verifications 0.06 s. Each draft was wrong at its second token, and the right
    branch was ready. So restarting for a ready branch pays.
    """
    text, known = own(60), 0
    opened(cloud, epoch=0, max_new_tokens=len(text), **USEFUL)
    while known < len(text) - 12:
        if known >= 3:
            for tokens in branched(text[known:]):
                cloud.receive(ALICE, draft(known, tokens, epoch=0, digest=extend_digest(ROOT, text[:known])))
        job = next_job(cloud)
        answers = frames(cloud.finish([job], [run(cloud, job)], 0.06 if job.draft else 0.05))
        known += sum(len(tokens) for tokens in verdicts(answers))
    return cloud


class RunningService:
    """Runs steps of a service. Frames in `arriving` are received in mid-forward, when an exit reports."""

    def __init__(self, cloud: VerifierService) -> None:
        self.cloud = cloud
        self.arriving: list = []
        self.replies: list = []
        cloud.set_poll(lambda: self.poll())

    def step(self) -> list:
        self.replies = []
        assert self.cloud.step(self.replies.append)
        return frames(self.replies)

    def poll(self) -> None:
        arriving, self.arriving = self.arriving, []
        for peer, frame in arriving:
            self.replies += self.cloud.receive(peer, frame)


def running(
    limits: CloudLimits | None = None,
    exits: bool = True,
    tuning: AdaptiveTuning = TRUSTING,
    **options,
) -> tuple[RunningService, tuple[int, ...]]:
    """Return a service whose exits, if `exits` is set, agree with the last layer, and its target's text."""
    target, _ = toy_pair(1, 1.0, eos_bias=-9.0)
    target.exit_row = lambda index, digest: target.row(digest)
    if not exits:
        target.exits = None
    cloud, text = VerifierService(target, limits, Clock(), tuning), own()
    opened(cloud, **{**USEFUL, **options})
    return RunningService(cloud), text
