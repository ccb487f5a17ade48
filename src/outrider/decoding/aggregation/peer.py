# SPDX-License-Identifier: Apache-2.0
"""One text from the view of one of its two peers. The same machine, without a clock, runs on both sides.

DRAGON section 4.1, "multi-step aggregation", with digests in place of its queues' epochs: a draft names the
prefix that it follows, so a draft that a rejection has made useless matches nothing and is dropped. Late
and repeated frames do no harm. The final text is the same on both sides, because the rules decide by
counter-based randomness. So either side may repeat it to the other, and `Behind` recovers any loss.

The other side learns this from a side's documents: their weight; under `coupled` the tokens drafted at that
side's own positions, rejected ones included; under the other rules every draft with its distribution, or
only the final text if that side alone aggregates. It never gets a document. But a text may quote a
document, and both sides know the text, because both must continue it.
"""

from __future__ import annotations

from outrider.core.endings import has_ended
from outrider.core.errors import ProtocolError
from outrider.core.frames import (
    FULL_SHARE,
    AggregationRules,
    Behind,
    Drafted,
    PeerFrame,
    PeerSide,
    Settled,
)
from outrider.core.ports import Array
from outrider.decoding.acceptance.counter_rng import CounterChance
from outrider.decoding.acceptance.packing import pack_peer_rows
from outrider.decoding.aggregation.received_drafts import ReceivedDrafts
from outrider.decoding.aggregation.rule import (
    PeerDraft,
    aggregate,
    likeliest,
    make_draft,
    other_side,
    owner,
)
from outrider.decoding.aggregation.scheduling import Profile, next_aggregator
from outrider.decoding.protocol.prefix_digest import DigestedText, extend_digest

_MAX_US = (1 << 32) - 1


class PeerText:
    """Takes drafted tokens and frames, and returns frames; `tokens` is the final text.

    The other side's drafts may arrive before `share`, the device's part, is known; until then nothing is
    final.
    """

    def __init__(
        self,
        side: PeerSide,
        rules: AggregationRules,
        session: int,
        epoch: int,
        digest: int,
        max_new_tokens: int,
        end_ids: frozenset[int],
        vocab_size: int,
        profile: Profile | None = None,
    ) -> None:
        """`profile`: times and acceptance rates learnt from earlier texts of the same peers."""
        self.side = side
        self.share: int | None = FULL_SHARE if rules.sync == "alone" else None
        self.profile = profile or Profile()
        self.aggregator: PeerSide = "cloud" if rules.aggregator == "cloud" else "device"
        self.num_switches = 0
        self.num_drafted = 0
        self.outcomes: list[bool] = []
        self._rules = rules
        self._session, self._epoch = session, epoch
        self._max_new_tokens, self._end_ids, self._vocab_size = max_new_tokens, end_ids, vocab_size
        self._chance = CounterChance(rules.seed)
        self._text = DigestedText(digest)
        self._drafts: list[PeerDraft] = []
        self._received = ReceivedDrafts(vocab_size, has_rows=rules.rule != "coupled")
        self._verdicts: dict[int, Settled] = {}
        self._rejected_at: tuple[int, float] | None = None
        self._collected = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """The final text so far."""
        return self._text.tokens

    @property
    def done(self) -> bool:
        """Whether the text is complete."""
        return self._ends(self.tokens)

    def next_prefix(self) -> tuple[int, ...] | None:
        """Return the prefix for which the model should predict the next token; None if it may rest."""
        if self.done or (len(self._drafts) >= self._rules.window and self._rules.sync != "sequence"):
            return None
        prefix = self._drafted_text()
        return None if self._ends(prefix) else prefix

    def wants(self, prefix: tuple[int, ...]) -> bool:
        """Return whether the model's distribution after `prefix` is still needed."""
        return not self.done and prefix == self._drafted_text()

    def on_share(self, share: int, now_s: float) -> list[PeerFrame]:
        """Set the device's part in the mixture, and return the frames that were held back without it."""
        if self.share is not None:
            return []
        self.share = share
        return [*self._draft_frames(0), *self._settle(now_s)]

    def on_drafted(
        self, prefix: tuple[int, ...], probs: Array, decode_s: float, now_s: float
    ) -> list[PeerFrame]:
        """Take the model's distribution (V,) after `prefix`; ignore it if it is no longer needed."""
        self.num_drafted += 1
        if not self.wants(prefix):
            return []
        self.profile.on_decoded(self.side, decode_s)
        draft = make_draft(probs, self._rules.rule, self._rules.seed, self.side, len(prefix))
        self._drafts.append(draft)
        return [*self._draft_frames(len(self._drafts) - 1), *self._settle(now_s)]

    def on_frame(self, frame: PeerFrame, now_s: float) -> list[PeerFrame]:
        """Take a frame and return the frames to send. Raises ProtocolError for an impossible frame."""
        if isinstance(frame, Drafted):
            self._check_tokens(frame.tokens)
            self._received.add(frame, len(self._text))
            self._measure(frame, now_s)
        elif isinstance(frame, Settled):
            self._check_tokens(frame.tokens)
            known = self._verdicts.get(frame.base)
            if known is None or len(frame.tokens) >= len(known.tokens):
                self._verdicts[frame.base] = frame
        else:
            return self._repeat(frame)
        return self._settle(now_s)

    def retry(self) -> list[PeerFrame]:
        """Return the frames to repeat after a long silence, because either side's may have been lost."""
        if self.done or self._rules.sync == "alone":
            return []
        return [self._behind(), *self._draft_frames(0)]

    def repeat_all(self) -> list[PeerFrame]:
        """Return the whole text, for a peer that has lost it."""
        return [self._settled(0), *self._draft_frames(0)]

    @property
    def _sends_decisions(self) -> bool:
        """Whether the other side cannot derive this side's decisions itself."""
        if self._rules.sync == "alone":
            return False
        return self._rules.rule != "coupled" or self._rules.sync == "sequence"

    def _drafted_text(self) -> tuple[int, ...]:
        return (*self.tokens, *(draft.token for draft in self._drafts))

    def _ends(self, tokens: tuple[int, ...]) -> bool:
        return len(tokens) >= self._max_new_tokens or has_ended(tokens, self._end_ids)

    # Sending.

    def _draft_frames(self, first: int) -> list[PeerFrame]:
        """Return the drafts from index `first` on, as far as the other side needs them."""
        if self._rules.sync == "alone" or self.share is None:
            return []
        if self._rules.sync == "sequence":
            return self._sequence_frames()
        if self._rules.rule == "coupled":
            return self._owned_runs(first)
        if self._rules.aggregator == self.side or first >= len(self._drafts):
            return []
        return [self._run(first, len(self._drafts))]

    def _sequence_frames(self) -> list[PeerFrame]:
        """Do DRDG/SW: once the device has written its own text, it asks for the cloud's."""
        if self.done or not self._ends(self._drafted_text()):
            return []
        if self.side == "device":
            return [self._behind()]
        return [self._run(0, len(self._drafts))] if self._collected else []

    def _owned_runs(self, first: int) -> list[PeerFrame]:
        """Return only the drafts at this side's positions; the other side drafts at its own."""
        assert self.share is not None
        frames: list[PeerFrame] = []
        start = None
        for index in range(first, len(self._drafts) + 1):
            is_own = index < len(self._drafts) and self._owner(len(self._text) + index) == self.side
            if is_own and start is None:
                start = index
            elif not is_own and start is not None:
                frames.append(self._run(start, index))
                start = None
        return frames

    def _run(self, start: int, end: int) -> Drafted:
        drafts = self._drafts[start:end]
        digest = extend_digest(self._text.digest, (draft.token for draft in self._drafts[:start]))
        rows = [draft.row for draft in drafts if draft.row is not None]
        return Drafted(
            self._session,
            self._epoch,
            len(self._text) + start,
            digest,
            tuple(draft.token for draft in drafts),
            _microseconds(self.profile.decode_s(self.side)),
            pack_peer_rows(rows),
        )

    def _behind(self) -> Behind:
        return Behind(self._session, self._epoch, len(self._text), self._text.digest)

    def _settled(self, base: int) -> Settled:
        return Settled(
            self._session,
            self._epoch,
            base,
            self._text.digest_at(base),
            self.tokens[base:],
            self.aggregator,
            _microseconds(self.profile.round_trip_s),
        )

    def _repeat(self, frame: Behind) -> list[PeerFrame]:
        if frame.base > len(self._text):
            return [self._behind()]
        if self._text.digest_at(frame.base) != frame.digest:
            raise ProtocolError(f"the peers hold different texts of {frame.base} tokens: begin again")
        self._collected = True
        known: list[PeerFrame] = [self._settled(frame.base)] if self.share is not None else []
        return known + self._draft_frames(0)

    def _measure(self, frame: Drafted, now_s: float) -> None:
        """Measure the round trip: the other side's first draft after a rejection, less its decode time."""
        decode_s = frame.decode_us / 1e6
        self.profile.on_decoded(other_side(self.side), decode_s)
        if self._rejected_at is None or frame.base != self._rejected_at[0]:
            return
        if frame.digest == self._text.digest_at(frame.base):
            self.profile.round_trip_s = max(0.0, now_s - self._rejected_at[1] - decode_s)
            self._rejected_at = None

    def _check_tokens(self, tokens: tuple[int, ...]) -> None:
        if any(token >= self._vocab_size for token in tokens):
            raise ProtocolError(f"a token is not in the vocabulary of {self._vocab_size}")

    # Deciding.

    def _settle(self, now_s: float) -> list[PeerFrame]:
        """Commit every token that can be decided, and return what the other side cannot derive."""
        first = None
        while not self.done:
            if self._apply_verdict():
                continue
            token = self._decide()
            if token is None:
                break
            first = len(self._text) if first is None else first
            rejected_other = self._commit(token)
            if self._sends_decisions:
                self._choose_aggregator()
                self._rejected_at = (len(self._text), now_s) if rejected_other else self._rejected_at
        return [self._settled(first)] if first is not None and self._sends_decisions else []

    def _apply_verdict(self) -> bool:
        """Commit what the other side has settled from this position on, if it has sent that."""
        length = len(self._text)
        for base, verdict in list(self._verdicts.items()):
            end = base + len(verdict.tokens)
            if end < length or base < end == length:
                del self._verdicts[base]
            elif base <= length and self._text.digest_at(base) == verdict.digest:
                del self._verdicts[base]
                for token in verdict.tokens[length - base :]:
                    if not self.done:
                        self._commit(token)
                self.aggregator = verdict.aggregator
                self.profile.round_trip_s = verdict.round_trip_us / 1e6 or self.profile.round_trip_s
                return True
        return False

    def _decide(self) -> int | None:
        """Return the token at this position if this side can decide it, else None."""
        if self.share is None:
            return None
        position = len(self._text)
        own = self._drafts[0] if self._drafts else None
        other_draft = self._received.at(position, self._text.digest)
        if self._rules.sync == "sequence":
            return self._decide_sequence(own, other_draft)
        if self._rules.rule == "coupled" or self._rules.sync == "alone":
            draft = own if self._owner(position) == self.side else other_draft
            return draft.token if draft is not None else None
        if self.aggregator != self.side or own is None or other_draft is None:
            return None
        drafts = (own, other_draft) if self.side == "device" else (other_draft, own)
        if self._rules.rule == "rejection":
            return aggregate(drafts, self.share, position, self._chance)
        assert drafts[0].row is not None and drafts[1].row is not None
        return likeliest((drafts[0].row, drafts[1].row), self.share)

    def _decide_sequence(self, own: PeerDraft | None, other_draft: PeerDraft | None) -> int | None:
        """Do DRDG/SW: the device waits for both texts, then takes one of them whole (RAG-Sequence)."""
        if self.side == "cloud":
            return None
        begun = len(self._text) > 0
        if not begun and (other_draft is None or not self._ends(self._drafted_text())):
            return None
        draft = own if self._owner(0) == "device" else other_draft
        return draft.token if draft is not None else None

    def _owner(self, position: int) -> PeerSide:
        assert self.share is not None
        return owner(self.share, position, self._chance)

    def _choose_aggregator(self) -> None:
        if self._rules.sync == "sequence":
            return
        chosen = next_aggregator(
            self._rules.aggregator, self.aggregator, self.profile, self._rules.seed, len(self._text)
        )
        self.num_switches += chosen != self.aggregator
        self.aggregator = chosen

    def _commit(self, token: int) -> bool:
        """Commit a token and drop drafts that contradict it; return whether the other side's draft did."""
        other_draft = self._received.take(len(self._text), self._text.digest)
        if self._drafts:
            self._note(self.side, self._drafts[0].token == token)
            if self._drafts[0].token == token:
                del self._drafts[0]
            else:
                self._drafts.clear()
        if other_draft is not None:
            self._note(other_side(self.side), other_draft.token == token)
        self._text.extend((token,))
        return other_draft is not None and other_draft.token != token

    def _note(self, side: PeerSide, accepted: bool) -> None:
        if side == self.side:
            self.outcomes.append(accepted)
        self.profile.on_outcome(side, accepted)


def _microseconds(seconds: float) -> int:
    return min(int(seconds * 1e6), _MAX_US)
