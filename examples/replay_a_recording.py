# SPDX-License-Identifier: Apache-2.0
"""Replay a recording without a robot: decode its prompts again, and compare the texts with those recorded.

outrider demo --record run.mcap
python examples/replay_a_recording.py run.mcap sd
"""

import sys
from pathlib import Path

import outrider


def main(recording: str = "run.mcap", strategy: str = "outrider") -> bool:
    """Prints each step's text and the recorded one; returns whether all of them agree."""
    steps = outrider.read_steps(Path(recording))
    pair = outrider.load_pair()
    config = outrider.DecodingConfig(strategy=strategy)
    decoder = outrider.local_decoder(pair.target, pair.draft, config)
    all_agree = True
    for comparison, decoded in outrider.replay_steps(steps, decoder):
        all_agree &= comparison.agrees
        sign = "=" if comparison.agrees else "differs from"
        print(f"step {comparison.step:3d}  {decoded.tokens_per_s:4.0f} tokens/s  {comparison.replayed!r}")
        print(f"          {sign} {comparison.recorded!r}")
    decoder.close()
    return all_agree


if __name__ == "__main__":
    try:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
    except outrider.OutriderError as error:
        sys.exit(f"error: {error}")
