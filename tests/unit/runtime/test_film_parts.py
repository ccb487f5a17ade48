"""The parts of a film: the tokens at each moment, its pace, its lettering, the panel."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.core.values import RoundStats, TokenFate
from outrider.runtime.pictures.lettering import shortened, text_width, write_text
from outrider.runtime.pictures.pacing import HOLD_LAST_S, READ_S, SPEED, instants, stretches
from outrider.runtime.pictures.panel import INKS, TEXT_PX, PanelState, draw_panel, wrapped
from outrider.runtime.pictures.token_story import Tokens, TokenStory

ACCEPTED, WRITTEN, REJECTED, AHEAD = (
    TokenFate.ACCEPTED,
    TokenFate.WRITTEN,
    TokenFate.REJECTED,
    TokenFate.AHEAD,
)


def round_of(emitted: int, started_s: float, finished_s: float, draft_s: float = 0.0) -> RoundStats:
    return RoundStats(0, 0, 0, emitted, draft_s, 0.0, 0.0, started_s, finished_s, 0, 0)


TEXT = [
    ("turn", ACCEPTED),
    (" left", ACCEPTED),
    (" large", REJECTED),
    ("\n", REJECTED),
    (" small", WRITTEN),
    ("\n", ACCEPTED),
    ("search", WRITTEN),
]
ROUNDS = [round_of(3, 0.0, 1.0, draft_s=0.4), round_of(2, 1.0, 2.0)]


@pytest.mark.parametrize(
    ("time_s", "text", "rejected"),
    [
        (0.0, [], ""),
        (0.2, [("turn", AHEAD), (" left", AHEAD)], ""),
        (0.9, [("turn", AHEAD), (" left", AHEAD), (" large", AHEAD), ("\n", AHEAD)], ""),
        (1.5, [("turn", ACCEPTED), (" left", ACCEPTED), (" small", WRITTEN), ("\n", AHEAD)], " large\n"),
        (9.0, [(p, f) for p, f in TEXT if f is not REJECTED], ""),
    ],
)
def test_tokens_are_drafted_then_judged_round_by_round(time_s, text, rejected):
    assert TokenStory(TEXT, ROUNDS).at(time_s) == Tokens(tuple(text), rejected)


def test_what_the_rounds_do_not_account_for_is_not_lost():
    tokens = TokenStory([*TEXT, (" no", WRITTEN)], ROUNDS).at(9.0).text
    assert tokens[-1] == (" no", WRITTEN)
    assert TokenStory(TEXT, []).at(9.0) == Tokens() and TokenStory([], ROUNDS).at(9.0) == Tokens()


def test_a_film_is_slow_while_a_text_is_decoded_and_fast_between():
    parts = stretches(0.0, 10.0, [(1.0, 1.22), (5.0, 5.22)])
    assert [part.pace for part in parts] == pytest.approx([SPEED, 0.1, SPEED, 0.1, SPEED])
    assert sum(part.film_s for part in parts) == pytest.approx(2 * READ_S + (10.0 - 0.44) / SPEED)
    times = [time_s for time_s, _ in instants(parts, 15)]
    assert times == sorted(times) and times[0] == 0.0 and times[-1] == 10.0
    assert len(times) == pytest.approx(15 * (sum(part.film_s for part in parts) + HOLD_LAST_S), abs=1)


def test_a_slow_text_and_texts_at_the_edges_are_shown_at_no_more_than_the_films_speed():
    parts = stretches(2.0, 30.0, [(0.0, 20.0), (19.0, 40.0), (50.0, 60.0)])
    assert all(part.pace <= SPEED for part in parts)
    assert parts[0].start_s == 2.0 and parts[-1].end_s == 30.0


def test_many_texts_do_not_make_a_film_endless():
    texts = [(float(second), second + 0.1) for second in range(200)]
    assert sum(part.film_s for part in stretches(0.0, 200.0, texts)) < 200.0


@pytest.mark.parametrize("at", [(-30, 20), (5, 3), (90, 39), (200, 20), (5, 200), (5, -50)])
def test_text_that_leaves_the_picture_is_cut(at):
    picture = np.full((40, 100, 3), 255, np.uint8)
    write_text(picture, "a long line of words \u4e16", at, 18, (0, 0, 0))
    assert picture.shape == (40, 100, 3)


def test_a_text_is_shortened_to_a_width():
    assert shortened("short", 18, 500) == "short"
    cut = shortened("a text that has no room at all", 18, 120)
    assert cut.endswith("...") and text_width(cut, 18) <= 120


@pytest.mark.parametrize("fate", [ACCEPTED, WRITTEN, AHEAD])
def test_a_token_has_the_colour_of_its_fate(fate):
    def panel(tokens: Tokens) -> np.ndarray:
        return draw_panel(PanelState("find it", 3, 1.5, 0.1, tokens, "connected over lte"), 832, 252)

    changed = np.any(panel(Tokens((("word", fate),))) != panel(Tokens()), axis=2)
    drawn = panel(Tokens((("word", fate),)))[changed]
    assert np.any(np.all(drawn == INKS[fate], axis=1))


@pytest.mark.lengthy
def test_a_text_longer_than_the_panel_leaves_the_link_readable():
    tokens = Tokens(tuple((" token", ACCEPTED) for _ in range(400)), " rejected" * 80)
    state = PanelState("find " * 60, 3, 1.5, 0.1, tokens, "lost")
    empty = PanelState("find " * 60, 3, 1.5, 0.1, Tokens(), "lost")
    assert np.array_equal(draw_panel(state, 832, 252)[-34:], draw_panel(empty, 832, 252)[-34:])


def test_a_line_of_the_panel_ends_between_words_and_loses_nothing():
    pieces = ["move", " for", "ward", "\n", "app", "roach:", *[" silver", " bot", "tle"] * 12]
    lines = wrapped([(piece, TokenFate.ACCEPTED) for piece in pieces], 300)
    texts = ["".join(piece for piece, _ in line) for line in lines]
    assert texts[0] == "move forward" and len(texts) > 3
    assert " ".join(texts).split() == "".join(pieces).split()
    assert all(text_width(text, TEXT_PX) <= 300 for text in texts)
