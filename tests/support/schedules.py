"""Hypothesis strategies of the decoding tests: links, outages, compute times and virtual worlds."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from outrider.core.link_profile import LinkProfile, Outage
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.wire.codec import encode, wire_bytes

times = st.floats(0.0, 0.3)
links = st.builds(
    LinkProfile,
    delay_s=times,
    jitter_s=times,
    loss=st.floats(0.0, 0.4),
    retransmit_s=st.none() | st.just(0.2),
    bytes_per_s=st.sampled_from([float("inf"), 20_000.0]),
    ordered=st.booleans(),
)
outages = st.lists(
    st.builds(
        lambda start_s, length_s, restarts: Outage(start_s, start_s + length_s, restarts),
        st.floats(0.0, 4.0),
        st.floats(0.01, 1.5),
        st.booleans(),
    ),
    max_size=3,
)
computes = st.builds(
    ComputeProfile,
    draft_token_s=st.sampled_from([0.001, 0.02, 0.1]),
    draft_branch_s=st.sampled_from([0.0, 0.01]),
    verify_s=st.sampled_from([0.01, 0.1, 0.4]),
    step_s=st.sampled_from([None, 0.02, 0.3]),
    exit_fractions=st.just((0.2, 0.5, 0.8)),
)


def worlds_of(
    compute: st.SearchStrategy[ComputeProfile], link: st.SearchStrategy[LinkProfile]
) -> st.SearchStrategy[VirtualWorld]:
    """Returns worlds with these compute times, and such links in both directions."""
    return st.builds(
        VirtualWorld,
        frame_bytes=st.just(lambda frame: wire_bytes(encode(frame))),
        compute=compute,
        uplink=link,
        downlink=link,
        outages=outages.map(tuple),
        seed=st.integers(0, 1000),
    )


worlds = worlds_of(computes, links)

schedules = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
