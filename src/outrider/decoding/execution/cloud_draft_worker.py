# SPDX-License-Identifier: Apache-2.0
"""Runs the cloud's own drafting while the target verifies: with a draft model or the target's draft head."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from outrider.core.errors import ModelError
from outrider.core.ports import Array, DraftHead, LanguageModel, Pause
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.execution.cached_sequence import CachedSequence, rows_after
from outrider.decoding.execution.workers import Anchor, TargetWorker
from outrider.decoding.jobs import Aborted, CloudDraft, SessionKey
from outrider.decoding.protocol.prefix_digest import Tokens


class CloudDraftWorker:
    """Drafts with a model for many texts, and at several points of each, in one forward pass."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._sequences: dict[SessionKey, tuple[int, list[CachedSequence]]] = {}
        """By session: the epoch of the cached prompt, and the sequences of that session."""

    def run(self, jobs: Sequence[CloudDraft], pause: Pause | None = None) -> list[Choices | Exception]:
        """Return each job's result.

        One job's failure is its own result. An Aborted raised in a `pause` propagates.
        """
        try:
            return list(self._together(jobs, pause))
        except Aborted:
            raise
        except Exception as error:
            return [error] if len(jobs) == 1 else [self.run([job], pause)[0] for job in jobs]

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Free the caches of all other sessions."""
        for key in [key for key in self._sequences if key not in keys]:
            del self._sequences[key]

    def _together(self, jobs: Sequence[CloudDraft], pause: Pause | None) -> list[Choices]:
        free: dict[SessionKey, list[CachedSequence]] = {}
        sequences = [self._claim_sequence(job, free) for job in jobs]
        rows = rows_after(self._model, sequences, [job.prefix for job in jobs], pause)
        return [
            job.scheme.propose(row, job.sampling, len(job.prefix), job.num_choices)
            for job, row in zip(jobs, rows, strict=True)
        ]

    def _claim_sequence(
        self, job: CloudDraft, free: dict[SessionKey, list[CachedSequence]]
    ) -> CachedSequence:
        """Return the session's sequence that shares most with the job's prefix, and remove it from `free`.

        If the batch has used them all, add a sequence to the session and copy the nearest one's cache to
        it.
        """
        of_session = self._of_session(job)
        unused = free.setdefault(job.key, list(of_session))
        if unused:
            best = max(unused, key=lambda sequence: sequence.shared(job.prefix))
            unused.remove(best)
            return best
        further = CachedSequence(self._model)
        if self._model.shares_prompts:
            further.follow(max(of_session, key=lambda sequence: sequence.shared(job.prefix)), job.prefix)
        else:
            further.prefill(job.prompt, job.max_new_tokens)
        of_session.append(further)
        return further

    def _of_session(self, job: CloudDraft) -> list[CachedSequence]:
        """Return the session's sequences, at least one, with the prompt cached."""
        epoch, sequences = self._sequences.pop(job.key, (None, None))
        if epoch != job.epoch or sequences is None:
            sequences = (sequences or [CachedSequence(self._model)])[:1]
            sequences[0].prefill(job.prompt, job.max_new_tokens)
        self._sequences[job.key] = job.epoch, sequences
        return sequences


@dataclass
class _Chain:
    """The head's states after an anchor, by the tokens since the anchor."""

    anchor: Anchor
    states: dict[Tokens, Array] = field(default_factory=dict)


class HeadDraftWorker:
    """Drafts with a draft head from the target's last logits for a text.

    It serves many texts, and several points of each, in one step of the head at a time.
    """

    def __init__(self, target: TargetWorker, head: DraftHead) -> None:
        self._target, self._head = target, head
        self._chains: dict[SessionKey, _Chain] = {}

    def run(self, jobs: Sequence[CloudDraft]) -> list[Choices | Exception]:
        """Return each job's result. One job's failure is its own result.

        A job whose prefix does not continue the target's text fails with ModelError.
        """
        try:
            return self._together(jobs)
        except Exception as error:
            return [error] if len(jobs) == 1 else [self.run([job])[0] for job in jobs]

    def keep_only(self, keys: Collection[SessionKey]) -> None:
        """Forget the states of all other sessions."""
        for key in [key for key in self._chains if key not in keys]:
            del self._chains[key]

    @torch.inference_mode()
    def _together(self, jobs: Sequence[CloudDraft]) -> list[Choices | Exception]:
        chains = [self._chain(job) for job in jobs]
        positions = [
            (chain, job.prefix[len(chain.anchor.tokens) :])
            for chain, job in zip(chains, jobs, strict=True)
            if chain is not None
        ]
        self._advance_to(positions)
        rows = iter(self._rows(positions))
        return [
            ModelError(f"{self._head.name} has nothing to go on from")
            if chain is None
            else job.scheme.propose(next(rows), job.sampling, len(job.prefix), job.num_choices)
            for chain, job in zip(chains, jobs, strict=True)
        ]

    def _chain(self, job: CloudDraft) -> _Chain | None:
        anchor = self._target.anchor(job.key)
        if anchor is None or anchor.epoch != job.epoch:
            return None
        if job.prefix[: len(anchor.tokens)] != anchor.tokens:
            return None
        chain = self._chains.get(job.key)
        if chain is None or chain.anchor is not anchor:
            chain = self._chains[job.key] = _Chain(anchor, {(): self._head.begin(anchor.row)})
        return chain

    def _advance_to(self, positions: Sequence[tuple[_Chain, Tokens]]) -> None:
        """Compute the head's states at all positions, in as many steps as the farthest needs."""
        while missing := list(_next_missing(positions)):
            before = torch.stack([chain.states[tokens[:-1]] for chain, tokens in missing])
            last_tokens = torch.tensor([tokens[-1] for _, tokens in missing], device=before.device)
            after = self._head.advance(before, last_tokens)
            for (chain, tokens), state in zip(missing, after, strict=True):
                chain.states[tokens] = state

    def _rows(self, positions: Sequence[tuple[_Chain, Tokens]]) -> Sequence[Array]:
        """Return the logits (V,) at each position."""
        if not positions:
            return []
        rows: Sequence[Array] = self._head.logits(
            torch.stack([chain.states[tokens] for chain, tokens in positions])
        )
        return rows


def _next_missing(positions: Sequence[tuple[_Chain, Tokens]]) -> Iterator[tuple[_Chain, Tokens]]:
    """Yield for each position its shortest prefix whose state is missing."""
    for chain, tokens in positions:
        known = next(end for end in range(len(tokens), -1, -1) if tokens[:end] in chain.states)
        if known < len(tokens):
            yield chain, tokens[: known + 1]
