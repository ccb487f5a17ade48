# SPDX-License-Identifier: Apache-2.0
"""Draws a video's panel: the instruction, the text with its tokens' fates, rejected drafts, the link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from outrider.core.values import LinkState, TokenFate
from outrider.runtime.pictures.drawing import BAD, FAINT, GOOD, INK, PAPER
from outrider.runtime.pictures.lettering import Colour, Picture, shortened, text_width, write_text
from outrider.runtime.pictures.token_story import Token, Tokens

EDGE = 20
TITLE_PX, TEXT_PX, SMALL_PX = 25, 22, 18
TEXT_TOP, LINE_HEIGHT, MAX_LINES = 84, 29, 4
WRITTEN, WAITING, WAITING_GROUND = (170, 80, 20), (90, 110, 130), (205, 232, 250)
INKS: dict[TokenFate, Colour] = {
    TokenFate.ACCEPTED: GOOD,
    TokenFate.WRITTEN: WRITTEN,
    TokenFate.AHEAD: WAITING,
    TokenFate.REJECTED: BAD,
}
MEANINGS = (
    ("drafted, waits", TokenFate.AHEAD),
    ("accepted", TokenFate.ACCEPTED),
    ("written by the cloud", TokenFate.WRITTEN),
    ("rejected", TokenFate.REJECTED),
)
_LINK_COLOURS: dict[str, Colour] = {LinkState.CONNECTED.value: GOOD, LinkState.LOST.value: BAD}


@dataclass(frozen=True)
class PanelState:
    """The panel's content at an instant.

    `pace` is the number of the run's seconds per second of the video.
    """

    instruction: str
    step: int
    time_s: float
    pace: float
    tokens: Tokens
    link: str


def draw_panel(state: PanelState, width: int, height: int) -> Picture:
    """Returns the panel as a picture of this size."""
    panel = np.full((height, width, 3), PAPER, np.uint8)
    clock = f"step {state.step}    {state.time_s:.1f} s    pace x{state.pace:.2g}"
    left = width - EDGE - text_width(clock, SMALL_PX)
    write_text(panel, clock, (left, 36), SMALL_PX, INK)
    write_text(panel, shortened(state.instruction, TITLE_PX, left - 2 * EDGE), (EDGE, 37), TITLE_PX, INK)
    cv2.line(panel, (EDGE, 52), (width - EDGE, 52), (215, 212, 208), 1)
    _draw_text(panel, state.tokens.text)
    if state.tokens.rejected:
        _draw_rejected(panel, state.tokens.rejected, height - 50)
    _draw_legend(panel, height - 16)
    _draw_link(panel, state.link, height - 16)
    return panel


def _draw_text(panel: Picture, tokens: Sequence[Token]) -> None:
    """Write the tokens in the colours of their fates, in at most MAX_LINES."""
    for number, line in enumerate(wrapped(tokens, panel.shape[1] - 2 * EDGE)[:MAX_LINES]):
        x, y = EDGE, TEXT_TOP + LINE_HEIGHT * number
        for piece, fate in line:
            length = text_width(piece, TEXT_PX)
            if fate is TokenFate.AHEAD:
                cv2.rectangle(panel, (x, y - TEXT_PX + 2), (x + length, y + 6), WAITING_GROUND, -1)
            write_text(panel, piece, (x, y), TEXT_PX, INKS[fate])
            x += length


def wrapped(tokens: Sequence[Token], room_px: int) -> list[list[Token]]:
    """Returns the tokens in lines of at most this width. A line ends at a line feed or between two words."""
    lines: list[list[Token]] = [[]]
    left_px = room_px
    for word in _words(tokens):
        width = sum(text_width(piece, TEXT_PX) for piece, _ in word)
        is_broken = word[0][0] == "\n"
        if is_broken or (width > left_px and lines[-1]):
            lines.append([])
            left_px = room_px
            word = word[1:] if is_broken else [(word[0][0].lstrip(), word[0][1]), *word[1:]]
        lines[-1] += word
        left_px -= width
    return lines


def _words(tokens: Sequence[Token]) -> list[list[Token]]:
    """Returns tokens grouped into words: a space or a line feed begins a word."""
    words: list[list[Token]] = []
    for piece, fate in tokens:
        if not words or piece[:1] in (" ", "\n") or words[-1][-1][0] == "\n":
            words.append([])
        words[-1].append((piece, fate))
    return words


def _draw_rejected(panel: Picture, rejected: str, y: int) -> None:
    """Write the rejected drafts on their own line, struck through, so that the text above stays readable."""
    write_text(panel, "rejected:", (EDGE, y), SMALL_PX, FAINT)
    left = EDGE + text_width("rejected: ", SMALL_PX)
    words = shortened(rejected.strip().replace("\n", " | "), SMALL_PX, panel.shape[1] - EDGE - left)
    write_text(panel, words, (left, y), SMALL_PX, BAD)
    middle = y - SMALL_PX // 3
    cv2.line(panel, (left, middle), (left + text_width(words, SMALL_PX), middle), BAD, 1, cv2.LINE_AA)


def _draw_legend(panel: Picture, y: int) -> None:
    x = EDGE
    for name, fate in MEANINGS:
        ground = WAITING_GROUND if fate is TokenFate.AHEAD else INKS[fate]
        cv2.rectangle(panel, (x, y - 12), (x + 13, y + 1), ground, -1)
        write_text(panel, name, (x + 19, y), SMALL_PX - 2, INK)
        x += 19 + text_width(name, SMALL_PX - 2) + 20


def _draw_link(panel: Picture, link: str, y: int) -> None:
    words = f"link: {link or 'connecting'}"
    left = panel.shape[1] - EDGE - text_width(words, SMALL_PX)
    colour = _LINK_COLOURS.get(link.partition(" ")[0], FAINT)
    cv2.circle(panel, (left - 14, y - 6), 6, colour, -1, cv2.LINE_AA)
    write_text(panel, words, (left, y), SMALL_PX, INK)
