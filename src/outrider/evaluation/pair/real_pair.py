# SPDX-License-Identifier: Apache-2.0
"""`outrider bench weights`: published language models as draft and target.

Both really decode prompts of our own. Networks and the two machines' times are virtual: the times are those
measured here, each part by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from outrider.core.files.terminal import make_console, tracked
from outrider.core.link_profile import LinkProfile, Network, Outage
from outrider.core.model_options import DRAFT_BRANCHES, Precision
from outrider.core.pairs import check_pair
from outrider.core.values import Decoded, DecodeRequest, Prompt
from outrider.decoding.config import STRATEGIES, DecodingConfig
from outrider.decoding.fakes.replay import ReplayModel
from outrider.decoding.simulation.decoder import ComputeProfile, VirtualDecoder, VirtualWorld
from outrider.evaluation.pair.latency import measure_compute
from outrider.evaluation.pair.speculation import Verification, verifications
from outrider.runtime.common.json_figures import write_figures
from outrider.runtime.common.links import load_network
from outrider.runtime.datasets.held_out import Pair
from outrider.runtime.datasets.published_weights import DRAFT, TARGET, published_file
from outrider.runtime.datasets.real_prompts import real_prompts
from outrider.wire.codec import encode, wire_bytes

NUM_DRAFT_TOKENS = 4
MAX_LENGTH = 256
DEADLINE_S = 1e6
TIMED_PROMPTS = 3
ONE_WAY_MS = (0, 20, 100)
NAMED_LINKS = ("wifi6", "lte", "blackout")
OUTAGES = 1000
"""How many times a network's outages are repeated: for hours of virtual time."""


@dataclass(frozen=True)
class Acceptance:
    """Of greedy drafts: tokens a verification yields, and how often the draft at each position is accepted
    where those before it are."""

    verifications: int
    tokens_per_verification: float
    by_position: tuple[float, ...]


@dataclass(frozen=True)
class RealRow:
    """One strategy over one network. `different`: texts that are not those of `ar`."""

    network: str
    strategy: str
    tokens_per_s: float
    speedup_vs_ar: float
    tokens_per_round: float
    bytes_up_per_token: float
    bytes_down_per_token: float
    texts: int
    different: int


def load_published_pair(target: Precision, draft: Precision) -> Pair:
    """The 1.5B target and the 0.5B draft. Raises ModelError where `make weights` has not run."""
    from outrider.models import load_model  # seconds to import

    files = published_file(TARGET), published_file(DRAFT)
    pair = Pair(
        load_model(files[0], precision=target, max_length=MAX_LENGTH),
        load_model(files[1], role="draft", precision=draft, max_length=MAX_LENGTH, sessions=DRAFT_BRANCHES),
    )
    check_pair(pair.target, pair.draft)
    return pair


def acceptance_of(rounds: Sequence[Verification]) -> Acceptance:
    """The shares of some verifications; drafts that end their text have fewer positions."""
    reached: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    for one in rounds:
        for position, (token, choice) in enumerate(zip(one.draft, one.choices, strict=False)):
            reached[position] += 1
            if token != choice:
                break
            accepted[position] += 1
    emitted = sum(len(one.emitted) for one in rounds)
    shares = tuple(accepted[position] / reached[position] for position in sorted(reached))
    return Acceptance(len(rounds), emitted / len(rounds), shares)


def networks() -> dict[str, Network]:
    """Plain delays, the first being none (draft beside target), and links of config/links.yaml."""
    directions = {f"{ms} ms": LinkProfile(delay_s=ms / 1e3) for ms in ONE_WAY_MS}
    plain = {name: Network(name, direction, direction) for name, direction in directions.items()}
    return plain | {name: load_network(name) for name in NAMED_LINKS}


def virtual_world(network: Network, compute: ComputeProfile, seed: int) -> VirtualWorld:
    """A network whose outages come back as often as they do in hours."""
    period_s = network.repeat_s or 0.0
    outages = tuple(
        Outage(one.start_s + turn * period_s, one.end_s + turn * period_s)
        for turn in range(OUTAGES if network.repeat_s else 1)
        for one in network.outages
    )
    return VirtualWorld(
        lambda frame: wire_bytes(encode(frame)), compute, network.uplink, network.downlink, outages, seed
    )


def measure_network(
    pair: Pair,
    requests: Sequence[DecodeRequest],
    name: str,
    compute: ComputeProfile,
    temperature: float,
    seed: int,
) -> list[RealRow]:
    """Every strategy over one network, `ar` first."""
    rows: list[RealRow] = []
    own: list[Decoded] = []
    for strategy in STRATEGIES:
        config = DecodingConfig(strategy, NUM_DRAFT_TOKENS, temperature=temperature, seed=seed)
        world = virtual_world(networks()[name], compute, seed)
        draft = pair.draft if config.needs_model else None
        decoder = VirtualDecoder(pair.target, draft, config, world)
        texts = [decoder.decode(request) for request in requests]
        own = own or texts
        rows.append(_row(name, strategy, texts, own))
    return rows


def _row(network: str, strategy: str, texts: Sequence[Decoded], own: Sequence[Decoded]) -> RealRow:
    tokens = sum(len(text.token_ids) for text in texts)
    rounds = [one for text in texts for one in text.rounds]
    speed, ar_speed = (
        sum(len(text.token_ids) for text in some) / sum(text.elapsed_s for text in some)
        for some in (texts, own)
    )
    return RealRow(
        network=network,
        strategy=strategy,
        tokens_per_s=speed,
        speedup_vs_ar=speed / ar_speed,
        tokens_per_round=sum(one.emitted for one in rounds) / len(rounds),
        bytes_up_per_token=sum(text.speculation.bytes_up for text in texts) / tokens,
        bytes_down_per_token=sum(text.speculation.bytes_down for text in texts) / tokens,
        texts=len(texts),
        different=sum(one.token_ids != other.token_ids for one, other in zip(texts, own, strict=True)),
    )


def bench_weights(
    prompts: int = 8,
    tokens: int = 24,
    target_precision: Precision = "bf16",
    draft_precision: Precision = "bf16",
    temperature: float = 0.0,
    seed: int = 0,
    json_file: Path | None = None,
    pair: Pair | None = None,
) -> dict[str, Any]:
    """Measure, print tables, write JSON. Raises ModelError without weights, and ConfigError."""
    asked = real_prompts(prompts)
    pair = pair or load_published_pair(target_precision, draft_precision)
    rounds = [
        one
        for prompt in tracked(asked, "prompts")
        for one in verifications(pair, None, prompt, NUM_DRAFT_TOKENS, tokens)
    ]
    acceptance = acceptance_of(rounds)
    compute = measure_compute(pair, asked[:TIMED_PROMPTS], NUM_DRAFT_TOKENS)
    rows = _measure_all(pair, asked, tokens, compute, temperature, seed)
    figures = {
        "prompts": prompts,
        "tokens": tokens,
        "precisions": {"target": target_precision, "draft": draft_precision},
        "temperature": temperature,
        "seed": seed,
        "acceptance": asdict(acceptance),
        "compute": asdict(compute),
        "rows": [asdict(row) for row in rows],
    }
    _print(acceptance, compute, rows)
    write_figures(json_file, figures)
    return figures


def _measure_all(
    pair: Pair, asked: Sequence[Prompt], tokens: int, compute: ComputeProfile, temperature: float, seed: int
) -> list[RealRow]:
    """Each model runs a text once, whatever the strategies and networks."""
    remembered = Pair(ReplayModel(pair.target), ReplayModel(pair.draft))
    requests = [DecodeRequest(prompt, tokens, DEADLINE_S) for prompt in asked]
    return [
        row
        for name in tracked(networks(), "networks", total=len(networks()))
        for row in measure_network(remembered, requests, name, compute, temperature, seed)
    ]


def _print(acceptance: Acceptance, compute: ComputeProfile, rows: Sequence[RealRow]) -> None:
    console = make_console()
    shares = ", ".join(f"{share:.2f}" for share in acceptance.by_position)
    console.print(
        f"{acceptance.tokens_per_verification:.2f} tokens a verification of {NUM_DRAFT_TOKENS} drafted; "
        f"accepted by position, where those before are: {shares}\n"
        f"a draft token {1e3 * compute.draft_token_s:.0f} ms, a step {1e3 * (compute.step_s or 0.0):.0f} ms, "
        f"each further token of a verification {1e3 * compute.verify_token_s:.1f} ms",
        highlight=False,
    )
    table = Table(title="measured times of this machine, virtual networks; 0 ms: the draft beside the target")
    for heading in ("network", "strategy", "tok/s", "over ar", "tok/round", "B up", "B down", "different"):
        table.add_column(heading, justify="right")
    for row in rows:
        numbers = (row.tokens_per_s, row.speedup_vs_ar, row.tokens_per_round)
        sizes = (row.bytes_up_per_token, row.bytes_down_per_token)
        different = f"{row.different} of {row.texts}"
        table.add_row(
            row.network,
            row.strategy,
            *(f"{one:.2f}" for one in numbers),
            *(f"{one:.0f}" for one in sizes),
            different,
        )
    console.print(table)
