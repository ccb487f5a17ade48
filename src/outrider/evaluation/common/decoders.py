# SPDX-License-Identifier: Apache-2.0
"""Decoders in this process: of the shipped pair, or of one of its models alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from outrider.core.ports import TextDecoder
from outrider.decoding.config import DecodingConfig
from outrider.runtime.datasets.held_out import load_pair


@lru_cache(maxsize=1)
def decoder_of(model: str, folder: Path) -> TextDecoder:
    """Return the decoder of `pair`, `target` or `draft`, loaded once; a model alone is its own target.

    Raises ModelError if the folder does not hold it.
    """
    # Both take seconds to import, and not every evaluation needs them.
    from outrider.models import load_model
    from outrider.runtime.wiring.decoders import local_decoder

    if model == "pair":
        pair = load_pair(folder)
        return local_decoder(pair.target, pair.draft, DecodingConfig(strategy="sd", acceptance="greedy"))
    return local_decoder(load_model(folder / model), None, DecodingConfig(strategy="ar"))
