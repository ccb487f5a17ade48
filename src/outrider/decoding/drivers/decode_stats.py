# SPDX-License-Identifier: Apache-2.0
"""What the edge's driver observes during one text: tokens for the owner, and one RoundStats per verdict."""

from __future__ import annotations

from collections.abc import Callable

from outrider.core.frames import CloudFrame, Draft, EdgeFrame, Open, Opened, Proposal, Unsettled, Verdict
from outrider.core.ports import Tokenizer
from outrider.core.values import Decoded, LinkState, RoundStats, SpeculationStats, TokenFate, Verified
from outrider.decoding.edge.actions import Commit
from outrider.decoding.edge.machine import EdgeMachine


class DecodeRecorder:
    """Records one text. Times are seconds since the request, given by the driver. A verdict with tokens
    ends a round.
    """

    def __init__(self, tokenizer: Tokenizer, on_verified: Callable[[Verified], None]) -> None:
        self._tokenizer = tokenizer
        self._on_verified = on_verified
        self._tokens: tuple[int, ...] = ()
        self._rounds: list[RoundStats] = []
        self._unverified_tokens = 0
        self._started_s = 0.0
        self._sent_s = 0.0
        self._draft_s = self._sent_draft_s = self._draft_busy_s = 0.0
        self._bytes_up = self._bytes_down = 0
        self._total_up = self._total_down = self._prompt_bytes = 0
        self._drafted_tokens = self._misses = self._guess_hits = 0
        self._hit_exits: list[int] = []
        self._words: dict[int, str] = {}

    @property
    def wrote_alone(self) -> bool:
        """Whether the edge wrote part of the text by itself."""
        return self._unverified_tokens > 0

    def on_drafted(self, num_tokens: int, compute_s: float, now_s: float) -> None:
        """Record a draft job that ended now (0 tokens if it was aborted). Only its time since the round
        began counts towards the round.
        """
        self._drafted_tokens += num_tokens
        self._draft_s += min(compute_s, now_s - self._started_s)
        self._draft_busy_s += compute_s

    def on_sent(self, frame: EdgeFrame, num_bytes: int, now_s: float) -> None:
        """Add the bytes of a frame sent to the verifier, and note when a draft was sent."""
        if isinstance(frame, Open):
            self._prompt_bytes += num_bytes
            return
        self._bytes_up += num_bytes
        self._total_up += num_bytes
        if isinstance(frame, (Draft, Proposal)):
            self._sent_s, self._sent_draft_s = now_s, self._draft_s

    def on_received(self, frame: CloudFrame, num_bytes: int) -> None:
        """Add the bytes of a frame received from the verifier."""
        if isinstance(frame, Opened):
            self._prompt_bytes += num_bytes
            return
        self._bytes_down += num_bytes
        self._total_down += num_bytes

    def on_commit(self, commit: Commit, ends_text: bool, now_s: float) -> None:
        """Report tokens to the owner. The end token counts as a token but adds no text."""
        self._tokens += commit.tokens
        if commit.verdict is None:
            self._unverified_tokens += len(commit.tokens)
        else:
            self._end_round(commit, commit.verdict, now_s)
            if commit.drafted and not ends_text:
                self._count_foresight(commit)
        self._on_verified(Verified(commit.tokens, self._text(), now_s, self._trace(commit)))

    def decoded(self, machine: EdgeMachine, elapsed_s: float, link: LinkState) -> Decoded:
        """Return the finished text of a machine that is done."""
        return Decoded(
            text=self._text(),
            token_ids=self._tokens,
            finished=True,
            elapsed_s=elapsed_s,
            prefill_s=machine.text.target_prefill_s,
            target_passes=machine.text.target_passes,
            rounds=tuple(self._rounds),
            link=LinkState.LOST if self._unverified_tokens else link,
            unverified_tokens=self._unverified_tokens,
            speculation=self._speculation(),
        )

    def _speculation(self) -> SpeculationStats:
        return SpeculationStats(
            drafted_tokens=self._drafted_tokens,
            hint_hits=len(self._hit_exits),
            guess_hits=self._guess_hits,
            misses=self._misses,
            hit_exits=tuple(self._hit_exits),
            bytes_up=self._total_up,
            bytes_down=self._total_down,
            prompt_bytes=self._prompt_bytes,
            draft_busy_s=self._draft_busy_s,
        )

    def _count_foresight(self, commit: Commit) -> None:
        if not commit.foreseen:
            self._misses += 1
        elif commit.exit is None:
            self._guess_hits += 1
        else:
            self._hit_exits.append(commit.exit)

    def _trace(self, commit: Commit) -> tuple[tuple[str, TokenFate], ...]:
        """Return each token's word and fate. Rejected ones come where the text leaves the main branch."""
        fates = [
            (token, TokenFate.ACCEPTED if accepted else TokenFate.WRITTEN)
            for token, accepted in zip(commit.tokens, commit.is_accepted, strict=True)
        ]
        fates[commit.followed : commit.followed] = [(token, TokenFate.REJECTED) for token in commit.rejected]
        fates += [(token, TokenFate.AHEAD) for token in commit.ahead]
        return tuple([(self._word(token), fate) for token, fate in fates])

    def _word(self, token: int) -> str:
        """Return one token's text, from a cache: decoding takes longer, and the words of a text repeat."""
        word = self._words.get(token)
        if word is None:
            word = self._words[token] = self._tokenizer.decode([token])
        return word

    def _text(self) -> str:
        return self._tokenizer.decode(
            [token for token in self._tokens if token not in self._tokenizer.end_ids]
        )

    def _end_round(self, commit: Commit, verdict: Verdict | Unsettled, now_s: float) -> None:
        self._rounds.append(
            RoundStats(
                index=len(self._rounds),
                drafted=commit.drafted,
                accepted=commit.accepted,
                emitted=len(commit.tokens),
                draft_s=self._sent_draft_s,
                verify_s=verdict.verify_us / 1e6,
                round_trip_s=now_s - max(self._sent_s, self._started_s),
                started_s=self._started_s,
                finished_s=now_s,
                bytes_up=self._bytes_up,
                bytes_down=self._bytes_down,
            )
        )
        self._started_s = now_s
        self._draft_s = self._sent_draft_s = 0.0
        self._bytes_up = self._bytes_down = 0
