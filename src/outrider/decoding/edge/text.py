# SPDX-License-Identifier: Apache-2.0
"""What the edge holds of one text, from the request to the last token."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.core.errors import OutriderError
from outrider.core.frames import Unsettled, Verdict
from outrider.core.values import Prompt
from outrider.decoding.protocol.prefix_digest import DigestedText
from outrider.decoding.protocol.sampling_rules import Sampling


@dataclass(eq=False)
class EdgeText:
    """One text. `committed`: its final tokens; `settled`: the last of them if the edge drew it itself and the
    cloud may not have it; `early`: verdicts after a gap, by base; `hinted`: the exits that hinted at each
    outcome of the running verification.

    `opened`: the cloud holds the text, to the edge's knowledge; `alone`: the edge writes without it;
    `busy_error`: the verifier's, if it has no room at present. `target`, `begun_by`: checksums of the target
    that read the prompt last, and of the one that wrote the first tokens. `target_passes`: forwards of the
    target, of which `passes_before` were made before the cloud last lost the text.

    `opened_s`: when it was last sent to be opened; `sent_at`: the number of committed tokens when a draft was
    last sent; `resumed_at`, `resumed_s`: that number when a gap was last reported, and the time.
    """

    epoch: int
    prompt: Prompt
    max_new_tokens: int
    sampling: Sampling
    committed: DigestedText
    settled: int | None = None
    early: dict[int, Verdict | Unsettled] = field(default_factory=dict)
    hinted: dict[tuple[int, ...], int] = field(default_factory=dict)
    done: bool = False
    opened: bool = False
    alone: bool = False
    busy_error: OutriderError | None = None
    target: int | None = None
    begun_by: int | None = None
    target_prefill_s: float = 0.0
    target_passes: int = 0
    passes_before: int = 0
    opened_s: float = 0.0
    sent_at: int = -1
    resumed_at: int = -1
    resumed_s: float = 0.0
