"""Toy models that implement the real ports. Logits are a seeded hash of the text; misuse is an error."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from outrider.core.errors import FrameError, RoomError
from outrider.core.ports import Array, ExitInfo, ModelSession, OnExit
from outrider.core.values import Prompt
from outrider.decoding.fakes.synthetic import EOS_ID, ToyTokenizer
from outrider.decoding.fakes.unbatched import ListSession, UnbatchedModel
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest

WRONG_EXIT_SPREAD = 0.5


@dataclass(frozen=True)
class ToySettings:
    """Settings of a toy. `agreement`: the probability per position of the target's logits (same seed).

    `eos_bias` is added to the end token's logit. `exit_agreement`: for each early exit, from the first layer
    on, the probability that it chooses the toy's own token; empty for no exits. Exits choose from a seeded
    shortlist of `shortlist_size` tokens, or from the whole vocabulary if that is None.
    """

    seed: int = 0
    vocab_size: int = 32
    agreement: float = 1.0
    eos_bias: float = -1.0
    prompt_length: int = 7
    max_length: int = 512
    exit_agreement: tuple[float, ...] = ()
    shortlist_size: int | None = None
    end_ids: tuple[int, ...] = (EOS_ID,)


class ToyModel(UnbatchedModel):
    """A LanguageModel without weights."""

    shares_prompts = True

    def __init__(self, settings: ToySettings | None = None) -> None:
        self.settings = settings or ToySettings()
        self.name = f"toy-{self.settings.seed}"
        self.vocab_size = self.settings.vocab_size
        self.max_length = self.settings.max_length
        self.tokenizer = ToyTokenizer(self.vocab_size, self.settings.end_ids)
        self.end_ids = self.tokenizer.end_ids
        self.exits = _exit_info(self.settings)

    def open_session(self) -> ToySession:
        """Returns a new session with an empty cache."""
        return ToySession(self)

    def row(self, digest: int) -> Array:
        """Returns the logits (V,) after the text with this digest. They are cached: do not modify them."""
        return _row(self.settings, digest)

    def exit_row(self, exit_index: int, digest: int) -> Array:
        """Returns an exit's logits (S,): the toy's own if the exit agrees, else others with half the spread.

        An exit that agrees therefore agrees under any noise added to both, and is more confident on average.
        If an exit agrees on a text, every exit with a higher probability agrees as well.
        """
        assert self.exits is not None
        own, shortlist = self.row(digest), self.exits.token_ids
        luck = random.Random(f"{self.settings.seed}/{digest}/exits").random()
        if luck < self.settings.exit_agreement[exit_index]:
            return own[shortlist]
        noise = random.Random(f"{self.settings.seed}/{digest}/exit {exit_index}")
        row = torch.tensor([noise.gauss(0.0, WRONG_EXIT_SPREAD) for _ in shortlist])
        row[shortlist == own.argmax()] = row.min() - 1.0
        return row


@lru_cache(maxsize=1 << 14)
def _row(settings: ToySettings, digest: int) -> Array:
    agrees = random.Random(f"{settings.seed}/{digest}/agree").random() < settings.agreement
    noise = random.Random(f"{settings.seed}/{digest}/{'target' if agrees else 'draft'}")
    row = torch.tensor([noise.gauss(0.0, 1.0) for _ in range(settings.vocab_size)])
    row[EOS_ID] += settings.eos_bias
    return row


class ToySession(ListSession):
    """A session whose cache is the list of digests."""

    def __init__(self, model: ToyModel) -> None:
        super().__init__()
        self._model = model

    def prefill(self, prompt: Prompt) -> Array:
        """Replaces the cache by the prompt; returns the logits (V,) of the first new token.

        Raises FrameError if the image is not a JPEG, and RoomError if the prompt does not fit.
        """
        if not prompt.jpeg.startswith(b"\xff\xd8"):
            raise FrameError("the frame is no JPEG: send the camera's JPEG bytes unchanged")
        if self._model.settings.prompt_length > self._model.max_length:
            raise RoomError("the prompt does not fit the model")
        self._cache = [prompt_digest(prompt)] * self._model.settings.prompt_length
        return self._model.row(self._cache[-1])

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        """Appends tokens; returns their logits (M, V)."""
        if not self._cache or not token_ids:
            raise AssertionError("forward needs a prefilled cache and at least one token")
        if self.length + len(token_ids) > self._model.max_length:
            raise AssertionError("forward beyond the cache")
        digests = self._cache[-1:]
        for token_id in token_ids:
            if not 0 <= token_id < self._model.vocab_size:
                raise AssertionError(f"token {token_id} is not in the vocabulary")
            digests.append(extend_digest(digests[-1], (token_id,)))
        if on_exit is not None and self._model.exits is not None:
            for index in range(len(self._model.exits.layers)):
                on_exit(index, torch.stack([self._model.exit_row(index, digest) for digest in digests[1:]]))
        self._cache += digests[1:]
        return torch.stack([self._model.row(digest) for digest in digests[1:]])

    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        """Copies the first `length` tokens of another session; see `core.ports.SharingSession`."""
        assert isinstance(other, ToySession) and other._model is self._model
        if self._cache[:start] != other._cache[:start] or length > other.length:
            raise AssertionError("the other session does not hold that")
        self._cache = other._cache[:length]

    def truncate(self, length: int) -> None:
        """Removes all tokens after the first `length`."""
        if not self._model.settings.prompt_length <= length <= self.length:
            raise AssertionError(f"truncate({length}) outside the text: the cache holds {self.length}")
        del self._cache[length:]


def _exit_info(settings: ToySettings) -> ExitInfo | None:
    """Returns the early exits, one after each layer but the last; None if there are none."""
    num_exits = len(settings.exit_agreement)
    if num_exits == 0:
        return None
    size = settings.vocab_size if settings.shortlist_size is None else settings.shortlist_size
    chosen = random.Random(f"{settings.seed}/shortlist").sample(range(settings.vocab_size), size)
    return ExitInfo(tuple(range(1, num_exits + 1)), num_exits + 1, torch.tensor(sorted(chosen)))
