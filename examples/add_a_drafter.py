# SPDX-License-Identifier: Apache-2.0
"""Add your own drafter. It may be wrong: the target's text is the same with any drafter.

python examples/add_a_drafter.py
"""

from collections.abc import Sequence

import outrider


class TextBefore:
    """Proposes the tokens that the previous text had at the same position."""

    source = "text_before"

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._before: list[int] = []
        self._now: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        self._before, self._now = self._now, []

    def extend(self, tokens: Sequence[int]) -> None:
        self._now += tokens

    def propose(self, branch: Sequence[int], limit: int) -> outrider.Continuation | None:
        start = len(self._now) + len(branch)
        tokens = tuple(self._before[start : start + limit])
        return outrider.Continuation(self.source, tokens, (0.8,) * len(tokens)) if tokens else None


def main() -> list[outrider.Decoded]:
    """Decodes one prompt twice with this drafter alone. The second text takes fewer forward passes."""
    outrider.register_drafter(TextBefore.source, TextBefore)
    target = outrider.load_pair().target
    config = outrider.DecodingConfig(strategy="sd", drafters=(TextBefore.source,))
    decoder = outrider.local_decoder(target, None, config)
    simulator = outrider.open_simulator(outrider.generate_home(seed=3), 3, odometry_noise=0.0, legs=False)
    text = outrider.render_prompt(outrider.PromptContext("find the silver bottle"))
    request = outrider.DecodeRequest(outrider.Prompt(text, simulator.frame_jpeg()))
    decoded = [decoder.decode(request) for _ in range(2)]
    for one in decoded:
        print(f"{one.target_passes:4.0f} passes of the target: {one.text!r}")
    return decoded


if __name__ == "__main__":
    main()
