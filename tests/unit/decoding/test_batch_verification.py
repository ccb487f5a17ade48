"""A batch judges each verification as if it ran alone: mixed schemes, temperatures and known rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from outrider.core.errors import ModelError
from outrider.core.frames import Peer
from outrider.core.ports import Chunk, ExitInfo
from outrider.decoding.acceptance.coupled import decide
from outrider.decoding.acceptance.packing import SparseRow
from outrider.decoding.acceptance.schemes import SCHEMES, AcceptanceScheme
from outrider.decoding.execution import batch_verification
from outrider.decoding.execution.batch_verification import VerificationBatch
from outrider.decoding.execution.cached_sequence import RowRequest
from outrider.decoding.jobs import ExitHint, SessionKey, Verify
from outrider.decoding.protocol.sampling_rules import Sampling

VOCABULARY = 40
HOST = torch.device("cpu")
SHORTLIST = torch.arange(0, VOCABULARY, 2)
EXITS = ExitInfo((1, 2), 3, SHORTLIST)


def job(
    number: int, scheme: AcceptanceScheme, sampling: Sampling, draft: tuple[int, ...], hints: bool = True
) -> Verify:
    key = SessionKey(Peer("", bytes([number])), number)
    evidence = tuple(SparseRow(np.array([token]), np.ones(1), VOCABULARY) for token in draft)
    return Verify(key, 1, (3,) * number, draft, evidence, scheme, sampling, True, hints)


JOBS = [
    job(0, SCHEMES["greedy"], Sampling(), (4, 6)),
    job(1, SCHEMES["rejection"], Sampling(1.0, seed=3), (8,)),
    job(2, SCHEMES["coupled"], Sampling(0.8, 0.9, 5), (2, 10, 12)),
    job(3, SCHEMES["coupled"], Sampling(0.8, 0.9, 6), (2,), hints=False),
    job(4, SCHEMES["coupled"], Sampling(1.5, 1.0, 7), ()),
]
KNOWN = (0, 1, 2)
"""The indices of the jobs whose first row the cache already has."""


def rows_of(seed: int, count: int, width: int) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed)) * 2.0


def row_request(job_index: int) -> RowRequest:
    count = len(JOBS[job_index].draft)
    known = rows_of(job_index, 1, VOCABULARY)[0] if job_index in KNOWN else None
    return RowRequest(known, count, Chunk(None, (1,) * (count + 2)))  # type: ignore[arg-type]


def run_batch(job_indices: list[int]) -> tuple[list[tuple[int, ExitHint]], list[object]]:
    """Return the hints and the judgements of these jobs, run as one batch."""
    hints: list[tuple[int, ExitHint]] = []
    batch = VerificationBatch(
        [JOBS[job_index] for job_index in job_indices],
        [row_request(job_index) for job_index in job_indices],
        EXITS,
        VOCABULARY,
        lambda job, hint: hints.append((job.key.session, hint)),
        HOST,
    )
    for index in range(2):
        exit_rows = [
            (number, rows_of(100 + 10 * index + job_index, len(JOBS[job_index].draft) + 2, len(SHORTLIST)))
            for number, job_index in enumerate(job_indices)
        ]
        reading = batch.read(index, exit_rows)
        if reading is not None:
            reading.observe(reading.chosen)
    rows = [rows_of(200 + job_index, len(JOBS[job_index].draft) + 1, VOCABULARY) for job_index in job_indices]
    return sorted(hints, key=lambda reported: (reported[0], reported[1].exit)), batch.judge(rows)


def test_each_job_of_a_batch_has_the_hints_that_it_has_alone():
    together = run_batch([0, 1, 2, 3, 4])
    alone = [run_batch([job_index]) for job_index in range(5)]
    assert together == (
        [hint for hints, _ in alone for hint in hints],
        [judgement for _, [judgement] in alone],
    )
    assert {session for session, _ in together[0]} == {0, 1, 2, 4}
    assert len(together[0]) == 8


def test_a_batch_judges_as_each_jobs_scheme_does():
    _, judgements = run_batch([0, 1, 2, 3, 4])
    for job_index, (job, judgement) in enumerate(zip(JOBS, judgements, strict=True)):
        rows = rows_of(200 + job_index, len(job.draft) + 1, VOCABULARY)
        outcome = job.scheme.judge(rows, job.draft, job.evidence, len(job.tokens), job.sampling, job.bonus)
        judged = (judgement.accepted, judgement.next_token, judgement.margin)
        assert judged == (outcome.accepted, outcome.next_token, outcome.margin)


def test_a_row_that_is_known_is_not_predicted_by_exits():
    hints = [hint for session, hint in run_batch([2])[0] if session == 2]
    assert len(hints) == 2 and len(hints[0].choices) == 4
    assert hints[0].choices[0] == hints[1].choices[0] and hints[0].confidences[0] == 1.0


def test_rows_of_all_robots_are_copied_to_the_host_at_once(monkeypatch):
    """One call of `decide` serves the known first rows, and one all rows of deterministic schemes."""
    crossed = []

    def counted(logits, draws):
        crossed.append(len(logits))
        return decide(logits, draws)

    monkeypatch.setattr(batch_verification, "decide", counted)
    run_batch([0, 1, 2, 3, 4])
    assert crossed == [2, 10]


def test_broken_logits_fail_only_their_own_session():
    batch = VerificationBatch(
        JOBS[:3],
        [row_request(job_index) for job_index in range(3)],
        None,
        VOCABULARY,
        lambda job, hint: None,
        HOST,
    )
    assert not batch.reads_exits
    rows: list[object] = [
        rows_of(job_index, len(JOBS[job_index].draft) + 1, VOCABULARY) for job_index in range(3)
    ]
    rows[2] = rows[2] * float("nan")  # type: ignore[operator]
    judged = batch.judge(rows)
    assert isinstance(judged[2], ModelError) and judged[0].accepted >= 0 and judged[1].accepted >= 0
    failed = RuntimeError("out of memory")
    assert batch.judge([failed, *rows[1:]])[0] is failed


def test_an_exit_with_nan_logits_gives_no_hint():
    only, hints = job(5, SCHEMES["greedy"], Sampling(), (4,)), []
    chunk = [RowRequest(None, 1, Chunk(None, (1, 2)))]
    batch = VerificationBatch([only], chunk, EXITS, VOCABULARY, lambda job, hint: hints.append(hint), HOST)
    rows = rows_of(1, 2, len(EXITS.token_ids))
    batch.read(0, [(0, rows * float("nan"))])
    assert not hints
    batch.read(1, [(0, rows)])
    assert len(hints) == 1


class DeviceAlone(TorchDispatchMode):
    """Fails if an operation creates, copies or reads a tensor on the host: that would wait for a GPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            assert not isinstance(leaf, torch.Tensor) or leaf.device.type == "meta", func
        return result


def test_exits_on_a_device_copy_nothing_to_it(monkeypatch):
    """The meta device holds no values, so an operation that waits for one raises."""
    jobs = [*JOBS, job(5, SCHEMES["greedy"], Sampling(), (4,))]
    chunks = [RowRequest(None, len(each.draft), Chunk(None, (1,) * (len(each.draft) + 1))) for each in jobs]
    device = torch.device("meta")
    batch = VerificationBatch(jobs, chunks, EXITS, VOCABULARY, lambda job, hint: None, device)
    monkeypatch.setattr(torch, "tensor", lambda *args, **options: pytest.fail("made on the host"))
    for complete in ([0, 1, 2, 3, 4, 5], [5, 2, 0], [4], [1], [3]):
        rows = [
            (number, torch.empty(len(jobs[number].draft) + 1, len(SHORTLIST), device=device))
            for number in complete
        ]
        with DeviceAlone():
            reading = batch.read(0, rows)
        chosen = sum(2 * len(logits) for number, logits in rows if number not in (1, 3))
        tested = sum(logits.numel() for number, logits in rows if number == 1)
        assert (reading is None and complete == [3]) or reading.chosen.numel() == chosen + tested
