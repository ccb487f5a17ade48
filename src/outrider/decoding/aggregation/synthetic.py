# SPDX-License-Identifier: Apache-2.0
"""A synthetic pair of peers whose drafts are accepted at given rates; fast enough for thousands of texts.

Each side is certain of one token after every text; with probability `agreement` it is the same token. Then
Algorithm 1 accepts a side's draft with probability agreement + (1 - agreement) eta. So do the other rules,
because delta is 1 for two certain distributions that differ, and eq. 5 then gives eta.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from outrider.core.errors import ConfigError
from outrider.decoding.fakes.synthetic import SyntheticModel, TextEnd, certain_rows, mixed_bits
from outrider.decoding.fakes.synthetic_fit import NUM_CHOICES

_CHOICE, _AGREE, _OTHER = range(100, 103)


@dataclass(frozen=True)
class AcceptanceTarget:
    """The acceptance rate of each side's drafts; they sum to at least 1."""

    device: float
    cloud: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.device <= 1.0 and 0.0 <= self.cloud <= 1.0 <= self.device + self.cloud):
            raise ConfigError(
                f"acceptance rates {self.device} and {self.cloud} must lie within 0 and 1 "
                "and sum to at least 1: one of the two drafts is accepted at every token"
            )

    @property
    def agreement(self) -> float:
        """The share of tokens at which both drafts are accepted."""
        return self.device + self.cloud - 1.0

    @property
    def device_share(self) -> float:
        """The device's eta."""
        disagreement = 1.0 - self.agreement
        return (self.device - self.agreement) / disagreement if disagreement > 0.0 else 0.5


def certain_pair(target: AcceptanceTarget, seed: int) -> tuple[SyntheticModel, SyntheticModel]:
    """Return the models of the device and the cloud."""
    device, cloud = (
        SyntheticModel(f"certain-{side}-{seed}", certain_rows(), partial(_choice, seed, share))
        for side, share in (("device", target.agreement), ("cloud", 1.0))
    )
    return device, cloud


def _choice(seed: int, agreement: float, end: TextEnd) -> int:
    """Return the cloud's choice after a text, or another one where the two disagree."""
    digest = end.digest
    choice = mixed_bits(seed, digest, _CHOICE) % NUM_CHOICES
    if mixed_bits(seed, digest, _AGREE) / 2.0**64 >= agreement:
        choice += 1 + mixed_bits(seed, digest, _OTHER) % (NUM_CHOICES - 1)
    return choice % NUM_CHOICES
