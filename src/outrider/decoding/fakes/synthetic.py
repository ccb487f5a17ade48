# SPDX-License-Identifier: Apache-2.0
"""A synthetic pair with a given acceptance length and given early exits, fast enough for thousands of
texts.

The target is certain of one token after every text. The draft is calibrated: its row gives one confidence
to its first choice and a share of the rest to its second, and the target's token has those ranks at exactly
these rates. So a token is accepted with the same probability under every acceptance scheme.

At each position the exits from a random depth on make the target's choice, and those before it a wrong one.

Random decisions are stratified over the positions of a text, as dealt cards are: in each block of STRATA
positions every share of 1 / STRATA occurs once. So even a few texts have almost the intended acceptance and
exits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch

from outrider.core.ports import Array, ExitInfo, ModelSession, OnExit
from outrider.core.values import Prompt
from outrider.decoding.fakes.synthetic_fit import NUM_CHOICES, draft_row
from outrider.decoding.fakes.unbatched import ListSession, UnbatchedModel
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest

EOS_ID = 0
FIRST_ID = 121
"""Chosen so that half of the ids take one byte on the wire and half two, as in the shipped pair's texts."""
VOCAB_SIZE = FIRST_ID + NUM_CHOICES
MAX_LENGTH = 4096
PROMPT_LENGTH = 8
CERTAIN_GAP = 60.0
"""By how many logits the target prefers its token: more than any sampling noise can reach."""
EASY, HARD, WRONG = range(3)
EXIT_CONFIDENCES = ((0.88, 0.99, 0.99, 0.99), (0.24, 0.43, 0.63, 0.94), (0.16, 0.27, 0.42, 0.62))
"""An exit's confidence in its choice: if it is right and so is the draft (EASY), if it is right and the
draft is not (HARD), and if it is wrong (WRONG). For each, the middles of the four quarters measured on the
shipped target's exits.
"""
LAYERS_OF_ONE_GUESS = 3
"""How many neighbouring exits share a wrong guess."""
STRATA = 200

_MASK = (1 << 64) - 1
_RANK, _CHOICE, _DEPTH, _GUESS, _CONFIDENCE = range(5)


class ToyTokenizer:
    """Reads and writes token n as the word `wn`; any other word is mapped to a fixed token."""

    def __init__(self, vocab_size: int, end_ids: Collection[int] = (EOS_ID,)) -> None:
        self.vocab_size = vocab_size
        self.end_ids = frozenset(end_ids)
        self.fingerprint = f"toy-{vocab_size}"
        self._words = [f"w{token_id}" for token_id in range(vocab_size)]

    def encode(self, text: str) -> list[int]:
        """Return one token id for each word."""
        return [self._id(word) for word in text.split()]

    def encode_prompt(self, text: str) -> list[int]:
        """Return `encode(text)`: no word is markup."""
        return self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the words of token ids, separated by spaces."""
        return " ".join([self._words[token_id] for token_id in token_ids])

    def _id(self, word: str) -> int:
        named = word.startswith("w") and word[1:].isdigit()
        return int(word[1:]) if named else sum(word.encode()) % self.vocab_size


class TextEnd(NamedTuple):
    """The end of a text: the digests of its prompt and of all of it,
    and its number of tokens after the prompt.
    """

    prompt: int
    digest: int
    position: int


@dataclass(frozen=True)
class SyntheticSettings:
    """`confidence`: the draft's in its first choice. `second_choice`: the share of the rest for its second.

    `exit_agreement`: the probability per position that exit 0, 1, ... already makes the target's choice.
    """

    seed: int = 0
    confidence: float = 0.7
    second_choice: float = 0.5
    exit_agreement: tuple[float, ...] = ()


class SyntheticModel(UnbatchedModel):
    """A LanguageModel whose rows are looked up in a table: `table[index(end)]`."""

    end_ids = frozenset((0,))
    vocab_size = VOCAB_SIZE
    max_length = MAX_LENGTH
    shares_prompts = True

    def __init__(
        self,
        name: str,
        table: Array,
        index: Callable[[TextEnd], int],
        exits: ExitInfo | None = None,
        exit_indices: Callable[[TextEnd], list[int]] | None = None,
    ) -> None:
        self.name = name
        self.tokenizer = ToyTokenizer(VOCAB_SIZE)
        self.exits = exits
        self._table = table
        self._exit_table = _exit_table()
        self._index = index
        self._exit_indices = exit_indices

    def open_session(self) -> SyntheticSession:
        """Return a new session with an empty cache."""
        return SyntheticSession(self)

    def rows(self, ends: Sequence[TextEnd]) -> Array:
        """Return the logits (M, V) after each end."""
        return self._table[[self._index(end) for end in ends]]

    def exit_rows(self, ends: Sequence[TextEnd]) -> Array:
        """Return the logits (E, M, S) of all exits; empty if there are none."""
        if self._exit_indices is None:
            return self._exit_table[:0]
        return self._exit_table[torch.tensor([self._exit_indices(end) for end in ends]).T]


class SyntheticSession(ListSession):
    """A session whose cache is the list of ends."""

    def __init__(self, model: SyntheticModel) -> None:
        super().__init__()
        self._model = model

    def prefill(self, prompt: Prompt) -> Array:
        root = prompt_digest(prompt)
        self._cache = [TextEnd(root, root, 0)] * PROMPT_LENGTH
        return self._model.rows(self._cache[-1:])[0]

    def forward(self, token_ids: Sequence[int], on_exit: OnExit | None = None) -> Array:
        ends = self._cache[-1:]
        for token_id in token_ids:
            prompt, digest, position = ends[-1]
            ends.append(TextEnd(prompt, extend_digest(digest, (token_id,)), position + 1))
        if on_exit is not None:
            for exit_number, rows in enumerate(self._model.exit_rows(ends[1:])):
                on_exit(exit_number, rows)
        self._cache += ends[1:]
        return self._model.rows(ends[1:])

    def copy_from(self, other: ModelSession, start: int, length: int) -> None:
        """Take over the first `length` tokens of another session; see `core.ports.SharingSession`."""
        assert isinstance(other, SyntheticSession)
        self._cache = other._cache[:length]


def synthetic_pair(settings: SyntheticSettings) -> tuple[SyntheticModel, SyntheticModel]:
    """Return the target, with exits if `exit_agreement` is not empty, and its draft model."""
    num_exits = len(settings.exit_agreement)
    exits = ExitInfo(tuple(range(1, num_exits + 1)), num_exits + 1, torch.arange(FIRST_ID, VOCAB_SIZE))
    target = SyntheticModel(
        f"synthetic-{settings.seed}",
        certain_rows(),
        lambda end: _target_choice(settings.seed, end.digest),
        exits if num_exits else None,
        (lambda end: _exit_indices(settings, end)) if num_exits else None,
    )
    draft = SyntheticModel(
        f"synthetic-draft-{settings.seed}",
        _draft_table(settings.confidence, settings.second_choice),
        lambda end: _draft_index(settings, end),
    )
    return target, draft


def certain_rows() -> Array:
    """Return logits (C, V): row i is certain of choice i."""
    return _over_vocabulary(torch.eye(NUM_CHOICES) * CERTAIN_GAP - CERTAIN_GAP)


def _draft_table(confidence: float, second_choice: float) -> Array:
    """Return (C * C, V): the row at an index has first choice `index // C` and second choice `index % C`."""
    first, second, other = (
        math.log(max(weight, 1e-30)) for weight in draft_row(confidence, second_choice)[:3]
    )
    table = torch.full((NUM_CHOICES, NUM_CHOICES, NUM_CHOICES), other)
    choices = torch.arange(NUM_CHOICES)
    table[:, choices, choices] = second
    table[choices, :, choices] = first
    return _over_vocabulary(table.reshape(-1, NUM_CHOICES))


def _over_vocabulary(rows: Array) -> Array:
    """Expand rows over the choices (N, C) to rows over all ids (N, V)."""
    wide = torch.full((len(rows), VOCAB_SIZE), -2.0 * CERTAIN_GAP)
    wide[:, FIRST_ID:] = rows
    return wide


def _exit_table() -> Array:
    """Return (C * F, C): the row at an index chooses `index // F` with confidence number `index % F`."""
    confidences = torch.tensor(EXIT_CONFIDENCES).flatten()
    others = torch.log((1.0 - confidences) / (NUM_CHOICES - 1))
    table = others[None, :, None].repeat(NUM_CHOICES, 1, NUM_CHOICES)
    choices = torch.arange(NUM_CHOICES)
    table[choices, :, choices] = torch.log(confidences)
    return table.reshape(-1, NUM_CHOICES)


def _target_choice(seed: int, digest: int) -> int:
    return mixed_bits(seed, digest, _CHOICE) % NUM_CHOICES


def _draft_index(settings: SyntheticSettings, end: TextEnd) -> int:
    """Return the draft's first and second choice;
    the target's token gets a random one of their ranks, or none.
    """
    target = _target_choice(settings.seed, end.digest)
    another, a_third = _other_choice(target, 1), _other_choice(target, 2)
    draw = _stratified(settings.seed, end, _RANK)
    if draw < settings.confidence:
        return target * NUM_CHOICES + another
    if draw < settings.confidence + (1.0 - settings.confidence) * settings.second_choice:
        return another * NUM_CHOICES + target
    return another * NUM_CHOICES + a_third


def _exit_indices(settings: SyntheticSettings, end: TextEnd) -> list[int]:
    """Return for each exit its row of `_exit_table` at a end."""
    seed, num_exits = settings.seed, len(settings.exit_agreement)
    target = _target_choice(seed, end.digest)
    depth, bits = _stratified(seed, end, _DEPTH), mixed_bits(seed, end.digest, _CONFIDENCE)
    right = EASY if _stratified(seed, end, _RANK) < settings.confidence else HARD
    guesses = [
        _other_choice(target, 1 + mixed_bits(seed, end.digest, _GUESS + 16 * number) % (NUM_CHOICES - 1))
        for number in range(num_exits // LAYERS_OF_ONE_GUESS + 2)
    ]
    phase = mixed_bits(seed, end.digest, _GUESS) % LAYERS_OF_ONE_GUESS
    quarters = len(EXIT_CONFIDENCES[0])
    indices = []
    for number, chance in enumerate(settings.exit_agreement):
        agrees = depth < chance
        choice, kind = (
            (target, right) if agrees else (guesses[(number + phase) // LAYERS_OF_ONE_GUESS], WRONG)
        )
        column = kind * quarters + (bits >> (2 * number % 62)) % quarters
        indices.append(choice * len(EXIT_CONFIDENCES) * quarters + column)
    return indices


def _other_choice(choice: int, step: int) -> int:
    """Return the choice `step` further, cyclically;
    for a step of 1 to NUM_CHOICES - 1 it is another choice.
    """
    return (choice + step) % NUM_CHOICES


def _stratified(seed: int, end: TextEnd, purpose: int) -> float:
    """Return a number from 0 to 1, stratified over the text's positions."""
    block, offset = divmod(end.position, STRATA)
    within = mixed_bits(seed, end.digest, purpose) / 2.0**64
    return (_shuffled_strata(seed, end.prompt, block, purpose)[offset] + within) / STRATA


@lru_cache(maxsize=1024)
def _shuffled_strata(seed: int, prompt: int, number: int, purpose: int) -> tuple[int, ...]:
    """Return the numbers 0 to STRATA - 1 in random order."""
    shuffled = list(range(STRATA))
    random.Random(mixed_bits(seed, prompt, purpose + 16 * number)).shuffle(shuffled)
    return tuple(shuffled)


def mixed_bits(seed: int, digest: int, purpose: int) -> int:
    """Return 64 mixed bits (the finaliser of splitmix64, Steele et al. 2014)."""
    value = (digest + (purpose << 32) + seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
