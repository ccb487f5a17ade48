# SPDX-License-Identifier: Apache-2.0
"""What a verifier serves at most: sessions and batches as data, and what a text may ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from outrider.core.errors import ConfigError
from outrider.core.frames import MAX_JPEG_BYTES, MAX_NEW_TOKENS, MAX_PROMPT_CHARS
from outrider.core.model_options import ROWS_OF_A_BATCH, ROWS_TOGETHER
from outrider.core.values import Prompt


@dataclass(frozen=True)
class CloudLimits:
    """What one model serves: so many sessions, of which an idle one keeps its place for `idle_s` seconds, and
    one whose text is complete or cancelled for `rest_s` where somebody else needs it. Who has been silent for
    `probe_s` is spoken to where others need a place: that shows who is gone.

    A batch verifies about `batch_tokens` tokens, of one robot or of several; beside others a robot has
    `shared_tokens` of them, however many they are: a chunk that would need another forward for its last
    tokens would make all wait for these. Without a session that is ready `most_left_out` batches in a row may
    begin. A robot has at most `tokens_per_s` verified on average, right or wrong.
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
        # A batch has a draft and what follows it.
        least = {"max_sessions": 1, "batch_tokens": 2, "shared_tokens": 2, "most_left_out": 0}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ConfigError(f"{name}={getattr(self, name)} must be at least {value}")
        for name in ("idle_s", "rest_s", "probe_s", "tokens_per_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)} must be positive")

    def on(self, device: str) -> CloudLimits:
        """With the batches that a device takes; one that is not known takes the CPU's."""
        kind = device.partition(":")[0]
        rows = ROWS_OF_A_BATCH.get(kind, self.batch_tokens)
        together = ROWS_TOGETHER.get(kind, self.shared_tokens)
        return replace(self, batch_tokens=rows, shared_tokens=together)


def check_request(prompt: Prompt, max_new_tokens: int) -> None:
    """Raises ConfigError for what no frame may hold, so that it is told here and not left unanswered."""
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
