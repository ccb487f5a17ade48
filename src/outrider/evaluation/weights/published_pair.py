# SPDX-License-Identifier: Apache-2.0
"""The published models: as a pair in one process, or each for a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.core.model_options import DRAFT_BRANCHES, Precision
from outrider.core.pairs import check_pair
from outrider.decoding.drivers.verifier_service import VerifierService
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.own_answers import TOGETHER
from outrider.runtime.datasets.published_weights import DRAFT, NAMES, Size, published_file

if TYPE_CHECKING:
    from outrider.models import QwenModel

MAX_LENGTH = 256


def load_target(size: Size, precision: Precision, sessions: int = 1) -> QwenModel:
    """The model of a size, with its exits where they have been trained. Raises ModelError without weights."""
    from outrider.models import load_model  # seconds to import

    folder = published_file(NAMES[size]).parent
    return load_model(folder, precision=precision, max_length=MAX_LENGTH, sessions=sessions)


def load_draft(precision: Precision) -> QwenModel:
    """The 0.5B model. Raises ModelError without weights."""
    from outrider.models import load_model  # seconds to import

    return load_model(
        published_file(DRAFT).parent,
        role="draft",
        precision=precision,
        max_length=MAX_LENGTH,
        sessions=DRAFT_BRANCHES,
    )


def load_published_pair(size: Size, target: Precision, draft: Precision) -> Pair:
    """A target of this size and the 0.5B draft. Raises ModelError where `make weights` has not run."""
    pair = Pair(load_target(size, target, sessions=TOGETHER), load_draft(draft))
    check_pair(pair.target, pair.draft)
    return pair


def target_service(size: Size, precision: Precision) -> VerifierService:
    """The target as a verifier, for a process of its own."""
    return VerifierService(load_target(size, precision))
