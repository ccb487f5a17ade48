# SPDX-License-Identifier: Apache-2.0
"""What a verifier serves at most: limits on sessions and batches, and checks of what a text may ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from outrider.core.errors import ConfigError
from outrider.core.frames import MAX_JPEG_BYTES, MAX_NEW_TOKENS, MAX_PROMPT_CHARS
from outrider.core.model_options import ROWS_OF_A_BATCH, ROWS_TOGETHER
from outrider.core.values import Prompt


@dataclass(frozen=True)
class CloudLimits:
    """The limits of one model's service.

    At most `max_sessions` are open. An idle session is kept for `idle_s` seconds; one whose text is
    complete or cancelled is kept for `rest_s` if another peer needs room. When there is no room, a peer
    silent for `probe_s` is sent a probe, which shows whether it is gone.

    A batch verifies about `batch_tokens` tokens of one robot or of several. If several share it, each has
    at most `shared_tokens`, however many robots there are: a draft that would need another forward for its
    last tokens would delay all others. At most `most_left_out` batches in a row may begin without a ready
    session. A robot has at most `tokens_per_s` tokens verified on average, right or wrong.
    """

    max_sessions: int = 8
    idle_s: float = 120.0
    rest_s: float = 30.0
    probe_s: float = 5.0
    batch_tokens: int = ROWS_OF_A_BATCH["cpu"]
    shared_tokens: int = ROWS_TOGETHER["cpu"]
    most_left_out: int = 4
    tokens_per_s: float = math.inf

    def __post_init__(self) -> None:
        # A batch holds a draft and the token after it.
        least = {"max_sessions": 1, "batch_tokens": 2, "shared_tokens": 2, "most_left_out": 0}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least {value}")
        for name in ("idle_s", "rest_s", "probe_s", "tokens_per_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)} must be positive")

    def on(self, device: str) -> CloudLimits:
        """Return the limits with the batch sizes of a device; an unknown device keeps the present ones."""
        kind = device.partition(":")[0]
        rows = ROWS_OF_A_BATCH.get(kind, self.batch_tokens)
        together = ROWS_TOGETHER.get(kind, self.shared_tokens)
        return replace(self, batch_tokens=rows, shared_tokens=together)


def check_request(prompt: Prompt, max_new_tokens: int) -> None:
    """Raise ConfigError for a request that no frame may hold: it is reported here, not left unanswered."""
    if not isinstance(max_new_tokens, int) or not 1 <= max_new_tokens <= MAX_NEW_TOKENS:
        raise ConfigError(
            f"max_new_tokens={max_new_tokens} must be a whole number between 1 and {MAX_NEW_TOKENS}"
        )
    if len(prompt.text) > MAX_PROMPT_CHARS:
        raise ConfigError(f"the prompt has {len(prompt.text)} characters: {MAX_PROMPT_CHARS} are the most")
    if len(prompt.jpeg) > MAX_JPEG_BYTES:
        raise ConfigError(f"the picture has {len(prompt.jpeg)} bytes: {MAX_JPEG_BYTES} are the most")
    try:
        prompt.text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"the prompt is no text: {error.reason} at character {error.start}") from error
