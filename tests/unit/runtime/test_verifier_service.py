"""What a verifier is made of, by what it is to do."""

from __future__ import annotations

from typing import Any, cast

import pytest
from support.toys import toy_pair

from outrider.decoding.aggregation.worker import plain_context
from outrider.decoding.joint import JointService
from outrider.decoding.service import VerifierService
from outrider.runtime.knowledge import Knowledge
from outrider.runtime.verifier import _service


class Facts:
    """A Knowledge without a corpus."""

    model = toy_pair(1, 1.0)[0]

    def documents(self) -> Any:
        return plain_context


@pytest.mark.parametrize("knowledge", [None, cast(Knowledge, Facts())], ids=["drafts alone", "answers too"])
def test_one_that_answers_from_documents_too_steps_for_nobody_who_has_not_asked(
    knowledge: Knowledge | None,
) -> None:
    made = _service(Facts.model, None, knowledge)
    verifier = made._verifier if isinstance(made, JointService) else made
    assert isinstance(verifier, VerifierService)
    assert verifier._machine._steps_meanwhile == (knowledge is None)
