"""Decoders that need no model and implement the real port."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from outrider.core.errors import Cancelled, LinkError
from outrider.core.language.grammar import Vocabulary
from outrider.core.values import Decoded, DecodeRequest, LinkState, RoundStats, TokenFate, Verified

TRACE = (
    ("turn", TokenFate.ACCEPTED),
    (" right", TokenFate.REJECTED),
    (" left", TokenFate.WRITTEN),
    ("...", TokenFate.AHEAD),
)
WORDS = Vocabulary({"colour": ("red",), "kind": ("chair",)})
SLOW_CAMERA = {"camera_silence_s": 3.0}
"""For a navigator that shares a process with the rendering."""
FEW_PICTURES = {"camera_hz": 4.0}
"""For a simulation whose pictures no test looks at: rendering them takes most of its time."""
ROUND = RoundStats(0, 4, 3, 4, 0.001, 0.002, 0.003, 0.0, 0.003, 20, 30)


@dataclass
class ScriptedDecoder:
    """Returns the texts of a script in turn, then a stop. Raises an exception in the script instead.

    `between_s` passes after the action line, as if the reason were still being verified. A test may change it
    meanwhile.
    """

    script: list[str | Exception]
    between_s: float = 0.0
    prompts: list[str] = field(default_factory=list)
    link_state: LinkState = LinkState.CONNECTED

    def decode(
        self,
        request: DecodeRequest,
        on_verified: Callable[[Verified], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Decoded:
        self.prompts.append(request.prompt.text)
        assert request.prompt.jpeg.startswith(b"\xff\xd8"), "the prompt carries a JPEG"
        text = self.script.pop(0) if self.script else "stop\nthere: done"
        if isinstance(text, Exception):
            raise text
        line = text.partition("\n")[0] + "\n"
        on_verified(Verified((1, 2), line, 0.01, TRACE))
        began_s = time.monotonic()
        while time.monotonic() < began_s + self.between_s:
            if cancelled():
                raise Cancelled("cancelled")
            time.sleep(0.005)
        on_verified(Verified((3,), text, 0.02))
        return Decoded(text, (1, 2, 3), True, 0.03, 0.01, 1, (ROUND,), LinkState.CONNECTED)

    def close(self) -> None:
        self.script.clear()


def link_error() -> LinkError:
    return LinkError("the verifier does not answer")
