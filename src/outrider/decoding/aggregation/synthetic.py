"""A made-up pair of peers whose drafts stand with given chances, quick enough for thousands of texts.

Each is certain of one token after every text; with probability `agreement` it is the same one. Then
Algorithm 1 keeps a side's draft with probability agreement + (1 - agreement) eta, as do the other rules: of
two certain distributions delta is 1, and eq. 5 gives eta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from outrider.core.errors import ConfigError
from outrider.core.frames import PeerSide
from outrider.core.ports import Array, OnExit
from outrider.core.values import Prompt, Successors
from outrider.decoding.digest import extend_digest, prompt_digest
from outrider.decoding.synthetic import CERTAIN_GAP, mixed_bits
from outrider.decoding.toy import ToyTokenizer

VOCAB_SIZE = 16
MAX_LENGTH = 4096
_CHOICE, _AGREE, _OTHER = range(100, 103)


@dataclass(frozen=True)
class AcceptanceTarget:
    """How often each side's drafts stand; together at least once a token."""

    device: float
    cloud: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.device <= 1.0 and 0.0 <= self.cloud <= 1.0 <= self.device + self.cloud):
            raise ConfigError(
                f"acceptance rates {self.device} and {self.cloud} cannot be: one draft stands at every token"
            )

    @property
    def agreement(self) -> float:
        return self.device + self.cloud - 1.0

    @property
    def device_share(self) -> float:
        """eta of the device."""
        disagreement = 1.0 - self.agreement
        return (self.device - self.agreement) / disagreement if disagreement > 0.0 else 0.5


class CertainPeer:
    """A LanguageModel: one side of such a pair."""

    eos_id = 0
    vocab_size = VOCAB_SIZE
    max_length = MAX_LENGTH
    exits = None

    def __init__(self, side: PeerSide, agreement: float, seed: int) -> None:
        self.name = f"certain-{side}-{seed}"
        self.tokenizer = ToyTokenizer(VOCAB_SIZE, self.eos_id)
        self._strays, self._agreement, self._seed = side == "device", agreement, seed
        self._table = torch.eye(VOCAB_SIZE, dtype=torch.float64) * CERTAIN_GAP

    def open_session(self) -> CertainSession:
        return CertainSession(self)

    def row(self, digest: int) -> Array:
        """Logits (V,); never the end token."""
        seed = self._seed
        token = mixed_bits(seed, digest, _CHOICE) % (VOCAB_SIZE - 1)
        if self._strays and mixed_bits(seed, digest, _AGREE) / 2.0**64 >= self._agreement:
            token += 1 + mixed_bits(seed, digest, _OTHER) % (VOCAB_SIZE - 2)
        return self._table[1 + token % (VOCAB_SIZE - 1)]


class CertainSession:
    """A ModelSession: the cache is the list of digests."""

    def __init__(self, model: CertainPeer) -> None:
        self._model = model
        self._digests: list[int] = []

    @property
    def length(self) -> int:
        return len(self._digests)

    def prefill(self, prompt: Prompt) -> Array:
        self._digests = [prompt_digest(prompt)]
        return self._model.row(self._digests[-1])

    def expected(self, count: int) -> Successors:
        """The prompt has no rows of its own."""
        return Successors()

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        digests = self._digests[-1:]
        for token_id in token_ids:
            digests.append(extend_digest(digests[-1], (token_id,)))
        self._digests += digests[1:]
        return torch.stack([self._model.row(digest) for digest in digests[1:]])

    def truncate(self, length: int) -> None:
        del self._digests[length:]


def certain_pair(target: AcceptanceTarget, seed: int) -> tuple[CertainPeer, CertainPeer]:
    """Device and cloud; with a share of `target.device_share` their drafts stand as often as asked."""
    return CertainPeer("device", target.agreement, seed), CertainPeer("cloud", target.agreement, seed)
