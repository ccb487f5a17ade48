"""The text is VDRAG's, token for token, whatever is drafted ahead, rolled back, late, reordered or lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.peers import joint_text, peer_world, peers
from support.toy_models import ToyModel, ToySettings
from support.toys import request, toy_pair

from outrider.core.errors import Cancelled, ConfigError, LinkError, ModelError
from outrider.core.frames import Drafted, Settled
from outrider.core.link_profile import LinkProfile
from outrider.core.values import DecodeRequest, Prompt
from outrider.decoding.acceptance.counter_rng import CounterChance
from outrider.decoding.aggregation.config import AggregationConfig
from outrider.decoding.aggregation.rule import FULL_SHARE, owner
from outrider.decoding.aggregation.virtual import PeerCompute, VirtualPeers
from outrider.decoding.aggregation.worker import Context

RULES = {"coupled": 1.0, "rejection": 1.0, "greedy": 0.0}
ASKED = request(max_new_tokens=30, deadline_s=2000.0)


def links(lossy):
    """Draw the profile of one direction: delay, jitter, perhaps reordering, and loss if `lossy`."""
    return st.builds(
        LinkProfile,
        delay_s=st.sampled_from([0.0, 0.02, 0.3]),
        jitter_s=st.sampled_from([0.0, 0.1]),
        loss=st.sampled_from([0.0, 0.2]) if lossy else st.just(0.0),
        ordered=st.booleans(),
    )


computers = st.builds(
    PeerCompute,
    prefill_s=st.sampled_from([0.0, 0.4]),
    token_s=st.sampled_from([0.001, 0.03, 0.2]),
    further_share=st.sampled_from([0.0, 1.0]),
)


@pytest.mark.lengthy
@given(
    rule=st.sampled_from(sorted(RULES)),
    sync=st.sampled_from(["speculative", "token"]),
    aggregator=st.sampled_from(["scheduled", "device", "cloud", "random"]),
    window=st.sampled_from([1, 2, 48]),
    seed=st.integers(0, 1000),
    agreement=st.sampled_from([0.0, 0.7, 1.0]),
    device=computers,
    cloud=computers,
    uplink=links(lossy=True),
    downlink=links(lossy=True),
    interruptible=st.booleans(),
)
def test_the_text_is_vdrags_under_any_schedule(
    rule, sync, aggregator, window, seed, agreement, device, cloud, uplink, downlink, interruptible
):
    models = toy_pair(seed, agreement)
    config = AggregationConfig(sync, rule, aggregator, window, RULES[rule], seed=seed, silence_s=1.0)
    world = peer_world(device, cloud, uplink, downlink, interruptible=interruptible, seed=seed)
    decoded = peers(models, config, world).decode(ASKED)
    assert decoded.token_ids == joint_text(*models, config, ASKED)


@pytest.mark.parametrize("rule", RULES)
def test_documents_and_their_relevance_make_the_share(rule):
    """Each side sees only its own contexts, yet the text comes from the mixture over all documents."""
    device, cloud = toy_pair(5, 0.5)
    config = AggregationConfig(rule=rule, temperature=RULES[rule], seed=9)
    prompt = ASKED.prompt

    def documents(*relevances):
        return lambda question: [
            Context(Prompt(f"document {index}: {question.text}", question.jpeg), relevance)
            for index, relevance in enumerate(relevances)
        ]

    one = VirtualPeers(device, cloud, config, peer_world(), documents(0.0, 1.0), documents(2.0))
    text = one.decode(ASKED).token_ids
    assert one.stats.share == pytest.approx(FULL_SHARE * 3.718 / (3.718 + 7.389), rel=1e-3)
    other = VirtualPeers(device, cloud, config, peer_world(), documents(0.0, 1.0), documents(9.0))
    assert other.decode(ASKED).token_ids != text
    again = VirtualPeers(device, cloud, config, peer_world(), documents(0.0, 1.0), documents(2.0))
    assert again.decode(ASKED).token_ids == text
    assert again.decode(DecodeRequest(prompt, 12, 100.0)).token_ids == text[:12]


def test_alone_the_device_writes_its_own_text_and_sends_nothing():
    models = toy_pair(3, 0.5)
    config = AggregationConfig("alone", temperature=1.0, seed=4)
    decoded = peers(models, config).decode(ASKED)
    assert decoded.token_ids == joint_text(*models, config, ASKED, FULL_SHARE)
    assert decoded.speculation.bytes_up == decoded.speculation.prompt_bytes == 0


def test_sequence_wise_takes_one_of_the_two_texts_whole():
    models = toy_pair(3, 0.5)
    indices = set()
    for seed in range(12):
        config = AggregationConfig("sequence", temperature=1.0, seed=seed)
        text = peers(models, config).decode(ASKED).token_ids
        own = [joint_text(*models, config, ASKED, share) for share in (FULL_SHARE, 0)]
        assert text in own
        indices.add(own.index(text))
    assert indices == {0, 1}


def test_a_device_that_alone_aggregates_sends_only_the_text():
    """The device sends only the text: none of its drafts and distributions."""
    sent = []
    watching = peer_world(extra_delay_s=lambda frame, num_bytes, now_s: sent.append(frame) or 0.0)
    models = toy_pair(3, 0.5)
    config = AggregationConfig(rule="rejection", aggregator="device", temperature=1.0)
    decoded = peers(models, config, watching).decode(ASKED)
    settled = [frame for frame in sent if isinstance(frame, Settled)]
    assert tuple(token for frame in settled for token in frame.tokens) == decoded.token_ids
    from_cloud = [frame for frame in sent if isinstance(frame, Drafted)]
    assert all(frame.evidence for frame in from_cloud)


def test_a_coupled_draft_names_only_tokens_of_its_senders_own_positions():
    sent = []
    world = peer_world(extra_delay_s=lambda frame, num_bytes, now_s: sent.append(frame) or 0.0)
    config = AggregationConfig(temperature=1.0, seed=2)
    one = peers(toy_pair(3, 0.8), config, world)
    one.decode(ASKED)
    seed = config.rules_for(ASKED.prompt).seed
    drafted = [frame for frame in sent if isinstance(frame, Drafted)]
    assert drafted
    for frame in drafted:
        owners = {
            owner(FULL_SHARE // 2, position, CounterChance(seed))
            for position in range(frame.base, frame.base + len(frame.tokens))
        }
        assert len(owners) == 1 and frame.evidence == b""


def test_speculation_hides_the_link():
    """If both models agree, the pair is nearly as fast as the device alone, even with 300 ms each way."""
    models = toy_pair(3, 1.0, eos_bias=-50.0)
    world = peer_world(uplink=LinkProfile(0.3), downlink=LinkProfile(0.3))
    asked = request(max_new_tokens=100, deadline_s=2000.0)
    speeds = {}
    for name, config in {
        "alone": AggregationConfig("alone"),
        "ahead": AggregationConfig(),
        "in step": AggregationConfig("token"),
    }.items():
        speeds[name] = peers(models, config, world).decode(asked).elapsed_s / 100
    assert speeds["ahead"] < 1.15 * speeds["alone"] < speeds["in step"] / 5


def test_models_of_two_tokenizers_are_refused():
    device, cloud = ToyModel(ToySettings(vocab_size=32)), ToyModel(ToySettings(vocab_size=33))
    with pytest.raises(ModelError, match=r"toy-\d+ has another tokenizer"):
        peers((device, cloud), AggregationConfig()).decode(ASKED)


def test_a_broken_model_ends_the_text_with_its_error():
    class Broken(ToyModel):
        def row(self, digest):
            return super().row(digest) * float("nan")

    with pytest.raises(ModelError, match="NaN"):
        peers((ToyModel(), Broken()), AggregationConfig()).decode(ASKED)


def test_deadline_and_cancellation():
    world = peer_world(uplink=LinkProfile(loss=1.0))
    with pytest.raises(LinkError, match="within 5"):
        peers(toy_pair(1, 1.0), AggregationConfig(), world).decode(request(deadline_s=5.0))
    with pytest.raises(LinkError, match="within nan"):
        peers(toy_pair(1, 1.0), AggregationConfig()).decode(request(deadline_s=float("nan")))
    with pytest.raises(Cancelled, match="0 final"):
        peers(toy_pair(1, 1.0), AggregationConfig()).decode(ASKED, cancelled=lambda: True)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"sync": "never"}, "sync"),
        ({"rule": "vote"}, "rule"),
        ({"aggregator": "robot"}, "aggregator"),
        ({"window": 0}, "window"),
        ({"temperature": 1.0, "rule": "greedy"}, "rule=greedy"),
        ({"rule": "coupled"}, "rule=coupled"),
        ({"silence_s": 0.0}, "silence_s"),
        ({"temperature": -1.0}, "temperature"),
        ({"wanted_model": "x" * 501}, "wanted_model has 501 characters"),
        ({"wanted_model": "#1a2b3c4d"}, "no model's name"),
    ],
)
def test_bad_settings_are_named(settings, names):
    with pytest.raises(ConfigError, match=names):
        AggregationConfig(**settings)


def test_a_device_that_wants_another_model_is_refused():
    models = (ToyModel(), ToyModel())
    wanted = AggregationConfig(wanted_model=models[1].name)
    assert (
        peers(models, wanted).decode(ASKED).token_ids
        == peers(models, AggregationConfig()).decode(ASKED).token_ids
    )
    with pytest.raises(ModelError, match=r"'another'.*'toy"):
        peers(models, AggregationConfig(wanted_model="another")).decode(ASKED)
