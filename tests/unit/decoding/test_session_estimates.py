"""The cloud's policy: how much of a draft to verify, and when to step instead."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.decoding.policy.adaptive import AdaptivePolicy
from outrider.decoding.policy.session_estimates import SessionEstimates

STEP_S = 0.05


def trained_estimates(accepted: int, verify_s: float = STEP_S, drafted: int = 4) -> SessionEstimates:
    """Return estimates after 60 chunks, of each of which `accepted` tokens were accepted."""
    policy = SessionEstimates()
    policy.on_verified(0, STEP_S)
    for _ in range(60):
        policy.on_verified(drafted, verify_s)
        policy.on_draft_judged(accepted, accepted < drafted)
    return policy


def test_the_verified_length_depends_on_past_acceptance():
    assert trained_estimates(4, verify_s=0.06).num_worth_verifying(4) == 4
    assert trained_estimates(4, verify_s=0.06).num_worth_verifying(2) == 2
    assert trained_estimates(0, verify_s=0.06).num_worth_verifying(4) == 0
    assert trained_estimates(4, verify_s=1.0).num_worth_verifying(4) == 0, "no more than its tokens as steps"
    assert SessionEstimates().num_worth_verifying(3) == 3
    assert trained_estimates(4).num_worth_verifying(0) == 0


def test_long_chunks_are_cut_where_their_end_does_not_pay():
    policy = SessionEstimates()
    policy.on_verified(0, STEP_S)
    for _ in range(100):
        policy.on_verified(8, 0.12)
        policy.on_draft_judged(1, True)
        policy.on_verified(2, 0.055)
        policy.on_draft_judged(1, True)
    assert 1 <= policy.num_worth_verifying(8) <= 5


def test_improved_drafts_are_noticed_by_steps():
    policy = trained_estimates(0, verify_s=0.06)
    assert policy.num_worth_verifying(4) == 0
    for _ in range(200):
        policy.on_step_despite_draft(True)
    assert policy.num_worth_verifying(4) == 4
    for _ in range(200):
        policy.on_step_despite_draft(False)
    assert policy.num_worth_verifying(4) == 0


times = st.floats(1e-4, 2.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), times), max_size=20),
    st.integers(0, 8),
)
def test_estimates_stay_within_bounds_for_any_history(verified, offered):
    policy = SessionEstimates()
    for drafted, accepted, compute_s in verified:
        policy.on_verified(drafted, compute_s)
        policy.on_draft_judged(min(drafted, accepted), accepted < drafted)
    assert 0 <= policy.num_worth_verifying(offered) <= offered


class Lying:
    """A view of a text for which a draft of the edge is ready."""

    room, step_requested = 8, False

    def best(self, after: tuple[int, ...] = ()) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
        return (11, 12, 13), (None, None, None)

    def continues(self, tokens: tuple[int, ...]) -> bool:
        return True


def test_ready_tokens_are_verified_before_the_clouds_better_draft_arrives():
    estimates = trained_estimates(1, drafted=8)
    for length in range(9):
        estimates.on_verified(length, STEP_S)
    for _ in range(60):
        estimates.cloud.on_judged(0.99, True)
    estimates.on_cloud_drafted(0.0001, 1)
    policy = AdaptivePolicy(False, estimates, cloud_drafts=True)
    assert policy.draft_after(Lying()) == (), "the cloud's own draft is the better one"
    plan = policy.plan(Lying())
    assert plan is not None and plan.draft == (11, 12, 13), "a step would yield less than the ready tokens"
