"""The cloud's service alone: what it does when a draft grows while it is being verified."""

from __future__ import annotations

import pytest
from cloud_machine import (
    ALICE,
    ROOT,
    running,
)
from support.toy_models import ToySettings

from outrider.core.frames import Proposal
from outrider.core.ports import Array
from outrider.decoding.acceptance.schemes import SCHEMES, certain_row


def certain(tokens: tuple[int, ...]) -> list[Array]:
    return [certain_row(token, ToySettings().vocab_size) for token in tokens]


@pytest.mark.parametrize("acceptance", ["rejection", "split", "sparse"])
def test_drafts_under_verification_may_grow(acceptance):
    """Our edge never has such drafts verified in this way, but a frame may ask for it."""
    served, text = running(acceptance=acceptance)
    first, grown = (
        Proposal(5, 1, 0, ROOT, None, tokens, SCHEMES[acceptance].pack_evidence(tokens, certain(tokens)))
        for tokens in (text[:2], text[:6])
    )
    served.cloud.receive(ALICE, first)
    served.arriving = [(ALICE, grown)]
    assert len(served.step()) >= 1 and served.arriving == []
    assert served.cloud.stats.aborted == served.cloud.stats.failed_jobs == 0
