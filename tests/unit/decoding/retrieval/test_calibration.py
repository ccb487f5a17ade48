"""Copied drafts give way to the model's own choices where these have proved right or are likely to be."""

from __future__ import annotations

import pytest

from outrider.core.values import Successors
from outrider.decoding.drafting.retrieval.drafts import RetrievedDrafts
from outrider.decoding.drafting.retrieval.suffix import SuffixDrafter

END = 0
KEYS, HANG, ARE, ON, THE, HOOK, LIE, SO = range(1, 9)
PROMPT = [KEYS, HANG, ON, THE, HOOK]


def expecting(choices: dict[int, tuple[int, float]], prompt: list[int]) -> Successors:
    """Return each prompt token's successor: its choice with a probability, or else the actual next token."""
    after = [
        choices.get(token, (follower, 0.9)) for token, follower in zip(prompt, [*prompt[1:], 9], strict=True)
    ]
    ids = [(token, 50 + index) for index, (token, _) in enumerate(after)]
    return Successors(ids, [(chance, 0.01) for _, chance in after])


def drafted(drafter: SuffixDrafter, *answer: int) -> tuple[int, ...]:
    drafter.extend(answer)
    proposal = drafter.propose((), 4)
    assert proposal is not None
    return proposal.tokens


def test_the_models_choice_takes_the_place_of_another_word():
    drafter = SuffixDrafter()
    drafter.begin(PROMPT)
    assert drafted(drafter, KEYS) == (HANG, ON, THE, HOOK)
    drafter.begin(PROMPT)
    drafter.calibrate(expecting({KEYS: (ARE, 0.95)}, PROMPT))
    assert drafted(drafter, KEYS) == (ARE, ON, THE, HOOK)


def test_a_choice_found_ahead_skips_the_tokens_between():
    """The example of the paper: `Clinton's security detail has arrived at` becomes `Clinton arrived at`."""
    prompt = [KEYS, SO, LIE, HANG, ON, THE, HOOK]
    drafter = SuffixDrafter()
    drafter.begin(prompt)
    drafter.calibrate(expecting({KEYS: (HANG, 0.95)}, prompt))
    assert drafted(drafter, KEYS) == (HANG, ON, THE, HOOK)


def test_the_copy_continues_at_the_expected_successor_of_the_choice():
    """`have been put on` becomes `are on`, because the prompt contains `are on` elsewhere."""
    prompt = [LIE, ARE, ON, SO, KEYS, 11, 12, 13, ON, THE, HOOK]
    drafter = SuffixDrafter()
    drafter.begin(prompt)
    drafter.calibrate(expecting({KEYS: (ARE, 0.95)}, prompt))
    assert drafted(drafter, KEYS) == (ARE, ON, THE, HOOK)


def test_an_unsure_choice_changes_nothing():
    drafter = SuffixDrafter()
    drafter.begin(PROMPT)
    drafter.calibrate(expecting({KEYS: (ARE, 0.3)}, PROMPT))
    assert drafted(drafter, KEYS) == (HANG, ON, THE, HOOK)


@pytest.mark.parametrize(("written", "follows"), [(HANG, HANG), (ARE, ARE)])
@pytest.mark.parametrize("chance", [0.35, 0.95])
def test_past_disagreements_decide_between_context_and_model(written: int, follows: int, chance: float):
    drafter = SuffixDrafter()
    for owner in range(20, 32):
        prompt = [owner, HANG, ON, THE, HOOK]
        drafter.begin(prompt)
        drafter.calibrate(expecting({owner: (ARE, chance)}, prompt))
        proposal = drafted(drafter, owner)
        drafter.extend((written, ON))
    assert proposal[0] == follows


def test_only_prompts_with_expectations_are_calibrated():
    plain, calibrated = (
        RetrievedDrafts(names, frozenset((END,))) for names in (("suffix",), ("suffix", "calibration"))
    )
    for drafts, expected in ((plain, HANG), (calibrated, ARE)):
        drafts.begin(PROMPT)
        drafts.calibrate(expecting({KEYS: (ARE, 0.95)}, PROMPT))
        drafts.extend([KEYS])
        assert next(drafts.likely((), 1))[0] == expected


def test_expectations_may_cover_the_end_of_the_prompt_only():
    """The tokens before the camera frame have no expectations."""
    drafter = SuffixDrafter()
    drafter.begin([ARE, SO, *PROMPT])
    whole = expecting({KEYS: (ARE, 0.95)}, PROMPT)
    drafter.calibrate(Successors(whole.ids[-5:], whole.probs[-5:]))
    assert drafted(drafter, KEYS)[:2] == (ARE, ON)
