"""The beam search over all possible sentences, with a table for a speech model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from outrider.core.errors import ConfigError
from outrider.voice.moonshine import MISSING_PENALTY, TOKEN_BONUS, TOKENS_A_SECOND, LogProbs, likeliest
from outrider.voice.sentence_graph import WordGraph
from outrider.voice.token_graph import SPACE, Pieces, TokenGraph

LETTERS = [SPACE, *"abcdeABCDE", ",", "."]
SPELLINGS = [b"", b"<s>", b"</s>", *(letter.encode() for letter in LETTERS), f"{SPACE}a".encode(), b"bc"]
SENTENCES = ("a", "abc", "a bc", "a bc de", "de", "de abc", "bc bc bc")


class TableReader:
    """Gives random log probabilities that depend on `seed` and the text so far."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._texts: list[tuple[int, ...]] = [()]

    def next(self, rows: Sequence[int], tokens: Sequence[int]) -> LogProbs:
        self._texts = [(*self._texts[row], token) for row, token in zip(rows, tokens, strict=True)]
        return np.stack([self.after(text) for text in self._texts])

    def after(self, text: tuple[int, ...]) -> LogProbs:
        logits = np.random.default_rng([self._seed, *text]).normal(0.0, 2.0, len(SPELLINGS))
        return (logits - np.logaddexp.reduce(logits)).astype(np.float32)


def made() -> tuple[TokenGraph, Pieces]:
    words = WordGraph()
    words.start = words.add_state()
    words.end = words.add_choice(words.start, SENTENCES)
    pieces = Pieces(SPELLINGS)
    return TokenGraph(words, pieces), pieces


def best_by_trying_all(seed: int, graph: TokenGraph, signs: frozenset[int], spoken_s: float) -> float:
    """Returns the highest score of all sentences, over every spelling and separation of their words."""
    reader, best = TableReader(seed), -np.inf
    open_ones = [(0.0, (1,), graph.start)]
    while open_ones:
        score, text, states = open_ones.pop()
        after, count = reader.after(text), len(text) - 1
        if graph.may_end(states):
            missing = max(0.0, TOKENS_A_SECOND[0] * spoken_s - count)
            best = max(best, score + float(after[2]) - MISSING_PENALTY * missing)
        nexts = dict(graph.nexts(states))
        if count and text[-1] not in signs and graph.word_boundaries(states):
            nexts |= dict.fromkeys(signs, graph.word_boundaries(states))
        open_ones += [
            (score + float(after[one]) + TOKEN_BONUS, (*text, one), led) for one, led in nexts.items()
        ]
    return best


def score_of(tokens: Sequence[int], seed: int, spoken_s: float) -> float:
    reader, text, score = TableReader(seed), (1,), 0.0
    for token in tokens:
        score += float(reader.after(text)[token]) + TOKEN_BONUS
        text = (*text, token)
    missing = max(0.0, TOKENS_A_SECOND[0] * spoken_s - len(tokens))
    return score + float(reader.after(text)[2]) - MISSING_PENALTY * missing


@pytest.mark.parametrize("seed", range(20))
def test_a_wide_beam_finds_the_likeliest_of_all_sentences(seed: int) -> None:
    graph, pieces = made()
    tokens = likeliest(TableReader(seed), graph, pieces.signs, 2.0, beam=500)
    words = pieces.decode(tokens).lower().replace(",", "").replace(".", "").split()
    assert " ".join(words) in SENTENCES
    assert score_of(tokens, seed, 2.0) == pytest.approx(best_by_trying_all(seed, graph, pieces.signs, 2.0))


def test_longer_speech_is_no_short_sentence() -> None:
    graph, pieces = made()
    lengths = [
        np.mean([len(likeliest(TableReader(seed), graph, pieces.signs, spoken_s)) for seed in range(20)])
        for spoken_s in (0.5, 4.0)
    ]
    assert lengths[0] < lengths[1]


def test_pieces_are_joined_in_the_order_in_which_they_were_learned(tmp_path: Path) -> None:
    _, pieces = made()
    assert [SPELLINGS[one].decode() for one in pieces.encode("abcd")] == [f"{SPACE}a", "bc", "d"]
    long = b"x" * 200
    path = tmp_path / "tokens"
    path.write_bytes(
        b"".join(bytes([len(one)]) + one for one in SPELLINGS) + bytes([200 - 128 + 128, 1]) + long
    )
    assert Pieces.read(path).encode("abcd") == pieces.encode("abcd")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="ends too soon"):
        Pieces.read(path)
