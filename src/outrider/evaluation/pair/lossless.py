# SPDX-License-Identifier: Apache-2.0
"""`outrider eval lossless`: checks that the pair's text is the target's own, token for token, on any link."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.core.files.terminal import tracked
from outrider.core.link_profile import LinkProfile
from outrider.core.ports import TextDecoder
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.config import DecodingConfig
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.common.intervals import wilson_interval
from outrider.evaluation.common.legends import LEGENDS
from outrider.evaluation.common.tables import interval_text, print_results, results_table
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.datasets.held_out import Pair, check_frames, held_out_prompts, load_pair
from outrider.runtime.wiring.decoders import local_decoder
from outrider.wire.codec import frame_bytes

STRATEGIES = {
    "sd": DecodingConfig(strategy="sd", acceptance="greedy"),
    "outrider": DecodingConfig(strategy="outrider", drafters=("model", "suffix")),
}
"""The textbook's strategy, and the robot's own with a robot's drafters."""
ROUGH_LINK = LinkProfile(delay_s=0.03, jitter_s=0.08, loss=0.05, retransmit_s=0.1, ordered=False)
"""Frames overtake each other, and some are retransmitted before they arrive."""


@dataclass(frozen=True)
class Difference:
    """A frame on which a decoder's text differs from the target's own, and the first such token."""

    frame: int
    decoder: str
    position: int


@dataclass
class Tally:
    """The comparisons so far; `tokens_per_round` is by decoder."""

    frames: int
    differences: list[Difference]
    tokens: list[int]
    tokens_per_round: dict[str, list[float]]

    @property
    def frames_that_differ(self) -> int:
        """The number of frames on which some decoder's text is not the target's own."""
        return len({difference.frame for difference in self.differences})


def compare(
    prompts: Iterable[Prompt],
    target_decoder: TextDecoder,
    decoders: dict[str, TextDecoder],
    max_new_tokens: int = 96,
) -> Tally:
    """Decode every prompt with every decoder, and record where one differs from `target_decoder`."""
    tally = Tally(0, [], [], {name: [] for name in decoders})
    for frame, prompt in enumerate(prompts):
        request = DecodeRequest(prompt, max_new_tokens)
        expected = target_decoder.decode(request).token_ids
        tally.frames += 1
        tally.tokens.append(len(expected))
        for name, decoder in decoders.items():
            decoded = decoder.decode(request)
            tally.tokens_per_round[name].append(decoded.tokens_per_round)
            if decoded.token_ids != expected:
                tally.differences.append(
                    Difference(frame, name, first_difference(expected, decoded.token_ids))
                )
    return tally


def first_difference(expected: tuple[int, ...], actual: tuple[int, ...]) -> int:
    """Return the first position at which two token sequences differ.

    If one begins the other, it is the shorter one's length.
    """
    pairs = zip(expected, actual, strict=False)
    shorter = min(len(expected), len(actual))
    return next((index for index, (first, second) in enumerate(pairs) if first != second), shorter)


def rough_world(seed: int) -> VirtualWorld:
    """Return a link with delay, jitter, loss and reordering both ways."""
    return VirtualWorld(frame_bytes, uplink=ROUGH_LINK, downlink=ROUGH_LINK, seed=seed)


def speculative_decoders(pair: Pair, seed: int) -> dict[str, TextDecoder]:
    """Return each of STRATEGIES over a good link and over a rough one, by name."""
    decoders: dict[str, TextDecoder] = {}
    for name, config in STRATEGIES.items():
        decoders[name] = local_decoder(pair.target, pair.draft, config)
        decoders[f"{name} over a rough link"] = VirtualDecoder(
            pair.target, pair.draft, config, rough_world(seed)
        )
    return decoders


def evaluate_lossless(
    frames: int,
    seed: int,
    models: Path | None = None,
    json_file: Path | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """Compare, print, write JSON; `lossless`: whether nothing differs. Raises ModelError without models."""
    check_frames(frames, seed)
    pair = pair or load_pair(models)
    decoders = speculative_decoders(pair, seed)
    target_decoder = local_decoder(pair.target, None, DecodingConfig(strategy="ar"))
    prompts = tracked(held_out_prompts(frames, seed), "frames", total=frames)
    tally = compare(prompts, target_decoder, decoders)
    figures = {
        "frames": tally.frames,
        "strategies": list(STRATEGIES),
        "tokens": sum(tally.tokens),
        "tokens_per_round": statistics.mean(tally.tokens_per_round["sd"]),
        "lossless": not tally.differences,
        "frames_that_differ": tally.frames_that_differ,
        "differences": [asdict(difference) for difference in tally.differences],
    }
    row = (
        str(tally.frames),
        str(figures["tokens"]),
        f"{figures['tokens_per_round']:.2f}",
        f"{tally.frames_that_differ} of {tally.frames}",
        interval_text(wilson_interval(tally.frames_that_differ, tally.frames), ".3f"),
    )
    print_results(results_table("texts beside the target's own", *LEGENDS["eval lossless"], rows=[row]))
    write_figures(json_file, {"seed": seed, **figures})
    return figures
