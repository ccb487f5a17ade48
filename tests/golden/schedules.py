"""Golden schedules: the events of every strategy under every condition, on the virtual clock.

The virtual clock is deterministic. A change that should not affect behaviour must therefore leave every
schedule as recorded in `schedules.json`. After an intended change of behaviour, record them again from the
root of the repository, and commit the result with the change:

    python -m tests.golden.regenerate

A schedule's hash is a SHA-256 over its events, rounded to 1 ns and sorted, its texts, its target passes and
its bytes up and down. The other figures only help to read a difference.

The hash is the same on other processors, Pythons and versions of torch:

- Times on the clock result from additions, multiplications and divisions of doubles, which IEEE 754 fixes.
- Exponentials, logarithms and sums differ in their last bits. They are only used in comparisons, and no
  comparison is that close: random changes by 1e-12 of their values change no schedule.
- The confidences of exits are rounded to four digits when they are computed
  (`decoding.acceptance.confidence`). No confidence of the toy and synthetic models is close to the middle
  between two such numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from support.toy_models import ToyModel, ToySettings

from outrider.core.frames import Frame
from outrider.core.link_profile import LinkProfile, Outage
from outrider.core.values import Decoded, Prompt
from outrider.decoding.aggregation.synthetic import AcceptanceTarget, certain_pair
from outrider.decoding.aggregation.virtual import AggregationStats, VirtualPeers
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.fakes.synthetic import SyntheticSettings, synthetic_pair
from outrider.decoding.protocol.limits import CloudLimits
from outrider.decoding.simulation.compute import ComputeProfile
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.fleet import Fleet
from outrider.decoding.simulation.fleet_world import CloudRecord, FleetText, FleetWorld, RobotRecord
from outrider.decoding.simulation.timeline import TimelineEvent
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.aggregation import comparison
from outrider.evaluation.aggregation.regimes import DELAYED_LINKS, load_aggregation_regimes
from outrider.evaluation.decoding.comparison import (
    configuration,
    decode_all,
    synthetic_models,
    synthetic_requests,
    world_of,
)
from outrider.evaluation.decoding.published_server import published_server
from outrider.evaluation.decoding.regimes import Regime, load_regimes
from outrider.evaluation.serving.fleets import BatchCost
from outrider.wire.codec import encode, wire_bytes

FILE = Path(__file__).parent / "schedules.json"
COMMAND = "python -m tests.golden.regenerate"
TEXTS, TOKENS = 2, 48
EXTRA_DELAY_MS = 100.0
SEED = 0

Schedule = dict[str, Any]
"""One strategy under one condition: the hash, and figures that help to read a difference."""
Schedules = dict[str, Schedule]
"""Schedules by strategy, or by whatever a condition compares."""


def conditions() -> dict[str, Callable[[], Schedules]]:
    """Returns the function that records each condition, by the condition's name."""
    regimes = {f"regime {name}": partial(record_regime, one) for name, one in load_regimes().items()}
    rough = {f"rough {name}": partial(record_rough, world) for name, world in rough_worlds().items()}
    fleets = {f"fleet {name}": partial(record_fleets, case) for name, case in fleet_cases().items()}
    peers = {
        f"peers {name}, {place}": partial(record_peers, one, place)
        for name, one in load_aggregation_regimes().items()
        for place in DELAYED_LINKS
    }
    return {**regimes, **rough, "configured": record_configured, **fleets, **peers}


def record_regime(regime: Regime) -> Schedules:
    """Records every strategy under one condition of `outrider bench decoding`."""
    pair, requests = synthetic_models(regime, SEED), synthetic_requests(TEXTS, TOKENS)
    schedules = {}
    for strategy in STRATEGIES:
        config, events = configuration(regime, strategy), list[TimelineEvent]()
        texts = decode_all(config, pair, world_of(regime, config.scheme, SEED), requests, events.append)
        schedules[strategy] = schedule_of(events, texts)
    return schedules


def rough_worlds() -> dict[str, VirtualWorld]:
    """Returns worlds whose links lose and reorder frames or break, and whose verifier restarts."""
    compute = ComputeProfile(verify_exit_s=0.001, step_exit_s=0.001, verify_token_s=0.0005)
    jittery = LinkProfile(delay_s=0.02, jitter_s=0.03, ordered=False)
    lossy = LinkProfile(0.05, 0.1, loss=0.2, retransmit_s=0.1, bytes_per_s=4000.0)
    outages = (Outage(0.6, 0.9), Outage(1.5, 1.7, verifier_restarts=True))
    return {
        "unordered": VirtualWorld(frame_bytes, compute, jittery, jittery, seed=SEED),
        "lossy and slow": VirtualWorld(frame_bytes, compute, lossy, lossy, seed=SEED),
        "outages": VirtualWorld(frame_bytes, compute, jittery, jittery, outages, seed=SEED),
    }


def record_rough(world: VirtualWorld) -> Schedules:
    """Records every strategy, greedy and sampled. If it drafts, it goes on alone while the link is down."""
    schedules = {}
    for strategy, plan in STRATEGIES.items():
        for temperature in (0.0, 0.8):
            config = DecodingConfig(
                strategy,
                temperature=temperature,
                link_loss="draft_only" if plan.drafts else "stop",
                link_grace_s=0.1,
                silence_s=0.4,
            )
            schedules[f"{strategy} at {temperature:g}"] = decode_toys(config, world)
    return schedules


CONFIGURED = {
    "drafts of seven": DecodingConfig(num_draft_tokens=7),
    "one branch at a time": DecodingConfig(workers=1),
    "greedy": DecodingConfig(acceptance="greedy"),
    "nucleus": DecodingConfig(temperature=1.2, top_p=0.8, seed=7),
    "retrieval alone": DecodingConfig(drafters=("suffix", "lookup", "reuse")),
    "retrieval beside the model": DecodingConfig(drafters=("model", "suffix", "calibration", "reuse")),
    "fsd first in first out": DecodingConfig("fsd", edge_hint_order="fifo", cloud_hint_order="fifo"),
    "fsd at random": DecodingConfig("fsd", edge_hint_order="random", cloud_hint_order="random"),
    "fsd coupled": DecodingConfig("fsd", acceptance="coupled", temperature=1.0),
    "dssd sparse": DecodingConfig("dssd", acceptance="sparse", temperature=1.0),
    "picospec split": DecodingConfig("picospec", acceptance="split", temperature=1.0),
    "sd with retrieval": DecodingConfig("sd", drafters=("model", "suffix"), temperature=1.0),
}


def record_configured() -> Schedules:
    """Records features that only a configuration enables."""
    link = LinkProfile(delay_s=0.03, jitter_s=0.01)
    world = VirtualWorld(frame_bytes, ComputeProfile(), link, link, seed=SEED)
    return {name: decode_toys(config, world) for name, config in CONFIGURED.items()}


def decode_toys(config: DecodingConfig, world: VirtualWorld) -> Schedule:
    """Records texts of a toy pair, whose distributions are as uncertain as those of small models."""
    target, draft = toy_pair()
    events: list[TimelineEvent] = []
    decoder = VirtualDecoder(target, draft, config, world, events.append)
    return schedule_of(events, [decoder.decode(request) for request in synthetic_requests(TEXTS, TOKENS)])


def toy_pair() -> tuple[ToyModel, ToyModel]:
    shared = ToySettings(seed=3, eos_bias=-4.0)
    return (
        ToyModel(replace(shared, exit_agreement=(0.3, 0.6, 0.9))),
        ToyModel(replace(shared, agreement=0.8, prompt_length=5)),
    )


def frame_bytes(frame: Frame) -> int:
    """Returns the size of a frame on the wire, as the codec encodes it."""
    return wire_bytes(encode(frame))


class FleetCase(NamedTuple):
    """A verifier, its links and the number of robots that share it."""

    world: FleetWorld
    robots: int


def fleet_cases() -> dict[str, FleetCase]:
    """Returns a slow verifier over jittery links, and FSD's published server, also with filled batches."""
    compute = ComputeProfile(draft_prefill_s=0.004, draft_token_s=0.00776, draft_branch_s=0.0002)
    slow = BatchCost(base_s=0.02, session_s=0.004, token_s=0.001, part_s=0.01)
    jittery = LinkProfile(delay_s=0.02, jitter_s=0.02)
    four, eight = CloudLimits(max_sessions=4), CloudLimits(max_sessions=8, batch_tokens=24)
    published = FleetWorld(frame_bytes, compute, LinkProfile(delay_s=0.005), published_server, eight, SEED)
    return {
        "of four, slow": FleetCase(FleetWorld(frame_bytes, compute, jittery, slow, four, SEED), 4),
        "of eight, published": FleetCase(published, 8),
        "of eight, filled": FleetCase(replace(published, fill=4), 8),
    }


def record_fleets(case: FleetCase) -> Schedules:
    """Records a fleet of each strategy, and a mixed one."""
    alike = {name: record_fleet(case.world, [name] * case.robots) for name in STRATEGIES}
    mixed = list(islice(cycle(STRATEGIES), case.robots))
    return {**alike, "mixed": record_fleet(case.world, mixed)}


def record_fleet(world: FleetWorld, strategies: Sequence[str]) -> Schedule:
    """Records a fleet whose robots decode one text each, started one after another."""
    target, draft = synthetic_pair(SyntheticSettings(SEED, 0.7, 0.5, (0.4, 0.7, 0.9)))
    fleet = Fleet(target, world)
    records = []
    for number, strategy in enumerate(strategies):
        text = FleetText(Prompt(f"robot {number}", b"\xff\xd8"), TOKENS // 2, pause_s=0.01 * number)
        records.append(fleet.add(iter([text]), draft, DecodingConfig(strategy)))
    fleet.run()
    last_s = max(chain.from_iterable(record.finished_s for record in records))
    tokens = sum(len(text) for record in records for text in record.texts)
    recorded = [account_of_robot(record) for record in records]
    return {
        "schedule": hash_of([recorded, account_of_cloud(fleet.cloud.record)]),
        "tokens_per_s": round(tokens / last_s, 3),
        "passes": sum(record.passes for record in records),
    }


def account_of_robot(record: RobotRecord) -> list[Any]:
    times = [record.commits, record.first_s, record.finished_s]
    return [*times, record.texts, record.rounds, record.passes]


def account_of_cloud(record: CloudRecord) -> list[Any]:
    return [record.batches, record.batch_s, record.prompt_s, record.prompts]


def record_peers(regime: Any, place: str) -> Schedules:
    """Records every method of DRAGON's evaluation under one of its conditions."""
    return {method: record_method(regime, place, method) for method in comparison.METHODS}


def record_method(regime: Any, place: str, method: str) -> Schedule:
    agreed = AcceptanceTarget(regime.acceptance, regime.acceptance)
    world = regime.world(EXTRA_DELAY_MS, place, SEED, method == "crcg", method == "sequence")
    frames: list[tuple[float, str, int]] = []
    plain_delay_s = world.extra_delay_s

    def noted_delay_s(frame: Frame, num_bytes: int, now_s: float) -> float:
        frames.append((now_s, type(frame).__name__, num_bytes))
        return plain_delay_s(frame, num_bytes, now_s)

    config = comparison.METHODS[method]
    documents = comparison.share_documents(agreed.device_share)
    noted = replace(world, extra_delay_s=noted_delay_s)
    peers = VirtualPeers(*certain_pair(agreed, SEED), config, noted, *documents)
    [request] = comparison.synthetic_requests(1, regime.num_tokens)
    decoded = peers.decode(request)
    return {"schedule": hash_of([frames, counts(peers.stats), *account_of(decoded)]), **figures([decoded])}


def counts(stats: AggregationStats) -> list[Any]:
    sides = (stats.accepted, stats.rejected, stats.drafted)
    return [*[sorted(side.items()) for side in sides], stats.switches, stats.share]


def schedule_of(events: Iterable[TimelineEvent], texts: Sequence[Decoded]) -> Schedule:
    """Returns the schedule of events and texts. Events are sorted: those of one instant have no order."""
    lines = sorted(map(line_of, events))
    return {"schedule": hash_of([lines, [account_of(text) for text in texts]]), **figures(texts)}


def line_of(event: TimelineEvent) -> tuple[str | int, ...]:
    times = nanoseconds(event.start_s), nanoseconds(event.end_s)
    return (*times, event.kind, event.label, event.base, event.tokens, event.branch)


def account_of(text: Decoded) -> list[Any]:
    spent = text.speculation
    return [text.token_ids, text.elapsed_s, text.target_passes, spent.bytes_up, spent.bytes_down]


def figures(texts: Sequence[Decoded]) -> Schedule:
    tokens = sum(len(text.token_ids) for text in texts)
    return {
        "tokens_per_s": round(tokens / sum(text.elapsed_s for text in texts), 3),
        "passes": sum(text.target_passes for text in texts),
        "bytes_up": sum(text.speculation.bytes_up for text in texts),
        "bytes_down": sum(text.speculation.bytes_down for text in texts),
    }


def hash_of(recorded: Any) -> str:
    """Returns the SHA-256 of nested sequences of numbers and strings. Each float is a time in seconds."""
    return sha256(json.dumps(in_nanoseconds(recorded), separators=(",", ":")).encode()).hexdigest()


def in_nanoseconds(value: Any) -> Any:
    if isinstance(value, float):
        return nanoseconds(value)
    return [in_nanoseconds(one) for one in value] if isinstance(value, (list, tuple)) else value


def nanoseconds(time_s: float) -> int:
    return round(1e9 * time_s)


def read() -> dict[str, Schedules]:
    """Returns the recorded schedules, by condition and strategy."""
    return json.loads(FILE.read_text())


def write(recorded: Mapping[str, Schedules]) -> None:
    """Writes one schedule per line, so that a diff shows which schedules changed."""
    blocks = []
    for condition, schedules in recorded.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(schedule)}" for name, schedule in schedules.items()]
        blocks.append(f" {json.dumps(condition)}: {{\n" + ",\n".join(lines) + "\n }")
    FILE.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def differences(before: Schedules, now: Schedules) -> list[str]:
    """Returns a line for each changed schedule: its name, and the figures that changed."""
    lines = [f"{name}: removed" for name in before if name not in now]
    for name, schedule in now.items():
        old = before.get(name)
        if old is None:
            lines.append(f"{name}: new")
        elif old != schedule:
            changed = [key for key in schedule if key != "schedule" and old.get(key) != schedule[key]]
            told = ", ".join(f"{key} {old.get(key)} -> {schedule[key]}" for key in changed)
            lines.append(f"{name}: {told or 'the same figures at other times'}")
    return lines
