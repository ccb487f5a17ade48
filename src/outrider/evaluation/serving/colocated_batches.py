# SPDX-License-Identifier: Apache-2.0
"""`csd` for a fleet: the same draft beside the target, both in batches, robots that only send prompts.

The server is FSD's (`fleets.server_s`): a token of the draft takes a share of what the target takes for as
many sequences. Nothing waits for a link within a text. What the target accepts is what the engine accepts.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from outrider.core.values import DecodeRequest
from outrider.decoding.config import DecodingConfig
from outrider.decoding.protocol.sampling_rules import Sampling
from outrider.decoding.simulation.decoder import VirtualDecoder
from outrider.decoding.simulation.fleet_world import RobotRecord
from outrider.decoding.simulation.virtual_verifier import VirtualWorld
from outrider.evaluation.alternatives.colocated import accepted, draft_ranks
from outrider.evaluation.decoding.fleets import ONE_WAY_S, prompts_of, published_pair, server_s

Ranks = Sequence[int]
"""Of a text: the place of each token among the draft's choices (`colocated.draft_ranks`)."""


def fleet_ranks(robots: int, tokens: int, texts: int, seed: int) -> list[list[Ranks]]:
    """Returns the ranks of every robot's texts, the ones that `published_fleet` writes."""
    pair = published_pair(seed)
    target = VirtualDecoder(pair.target, None, DecodingConfig("ar"), VirtualWorld(lambda frame: 0))
    return [
        [
            draft_ranks(
                pair.draft, prompt, target.decode(DecodeRequest(prompt, tokens, 1e6)).token_ids, Sampling()
            )
            for prompt in prompts_of(robot, texts)
        ]
        for robot in range(robots)
    ]


class CsdRobot:
    """One robot's texts as the server writes them. Its record is that of `fleet.FleetRobot`."""

    def __init__(self, texts: Sequence[Ranks]) -> None:
        self.record = RobotRecord()
        self._texts = iter(texts)
        self.ready_s = self._begun_s = 0.0
        """When the server has something to do for it."""
        self.done = False
        self._begin(0.0)

    def _begin(self, now_s: float) -> None:
        """The next text: its prompt goes up, and its first token comes from the prefill."""
        text = next(self._texts, None)
        self.done = text is None
        if text is not None:
            self._ranks, self._place = text, 1
            self._begun_s, self.ready_s = now_s, now_s + ONE_WAY_S
            self.record.commits.append((self.ready_s + ONE_WAY_S, 1))

    def drafted(self, length: int) -> int:
        """Returns how many tokens to draft: the target adds one."""
        return min(length, len(self._ranks) - self._place - 1)

    def judge(self, drafted: int, now_s: float) -> None:
        """The server has verified so many drafts; what it writes is at the robot one way later."""
        count = accepted(self._ranks, self._place, drafted) + 1
        self._place += count
        self.ready_s, arrived_s = now_s, now_s + ONE_WAY_S
        self.record.commits.append((arrived_s, count))
        if self._place >= len(self._ranks):
            self.record.texts.append(tuple(self._ranks))
            self.record.finished_s.append(arrived_s - self._begun_s)
            self._begin(arrived_s)


def csd_fleet(
    texts: Sequence[Sequence[Ranks]], draft_share: float, length: int, most: int
) -> list[RobotRecord]:
    """Returns what robots get of a server that drafts `length` tokens for up to `most` texts at a time, first
    come, first served, and verifies them.
    """
    robots = [CsdRobot(some) for some in texts]
    waiting = [(robot.ready_s, number) for number, robot in enumerate(robots)]
    now_s = 0.0
    while waiting:
        now_s = max(now_s, waiting[0][0])
        batch: list[int] = []
        while waiting and waiting[0][0] <= now_s and len(batch) < most:
            batch.append(heapq.heappop(waiting)[1])
        drafted = [robots[number].drafted(length) for number in batch]
        drafting = [sum(one > place for one in drafted) for place in range(max(drafted))]
        now_s += draft_share * sum(map(server_s, drafting)) + server_s(len(batch))
        for number, one in zip(batch, drafted, strict=True):
            robots[number].judge(one, now_s)
            if not robots[number].done:
                heapq.heappush(waiting, (robots[number].ready_s, number))
    return [robot.record for robot in robots]
