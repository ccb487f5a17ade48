# SPDX-License-Identifier: Apache-2.0
"""A made-up pair of peers whose drafts stand with given chances, quick enough for thousands of texts.

Each is certain of one token after every text; with probability `agreement` it is the same one. Then
Algorithm 1 keeps a side's draft with probability agreement + (1 - agreement) eta, as do the other rules: of
two certain distributions delta is 1, and eq. 5 gives eta.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from outrider.core.errors import ConfigError
from outrider.decoding.fakes.synthetic import Place, SyntheticModel, certain_rows, mixed_bits
from outrider.decoding.fakes.synthetic_fit import NUM_CHOICES

_CHOICE, _AGREE, _OTHER = range(100, 103)


@dataclass(frozen=True)
class AcceptanceTarget:
    """How often each side's drafts stand; together at least once a token."""

    device: float
    cloud: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.device <= 1.0 and 0.0 <= self.cloud <= 1.0 <= self.device + self.cloud):
            raise ConfigError(
                f"acceptance rates {self.device} and {self.cloud} cannot be: one draft stands at every token"
            )

    @property
    def agreement(self) -> float:
        """Returns the share of tokens at which both drafts are accepted."""
        return self.device + self.cloud - 1.0

    @property
    def device_share(self) -> float:
        """eta of the device."""
        disagreement = 1.0 - self.agreement
        return (self.device - self.agreement) / disagreement if disagreement > 0.0 else 0.5


def certain_pair(target: AcceptanceTarget, seed: int) -> tuple[SyntheticModel, SyntheticModel]:
    """Device and cloud."""
    device, cloud = (
        SyntheticModel(f"certain-{side}-{seed}", certain_rows(), partial(_choice, seed, share))
        for side, share in (("device", target.agreement), ("cloud", 1.0))
    )
    return device, cloud


def _choice(seed: int, agreement: float, place: Place) -> int:
    """The cloud's choice after a text where the two agree, else another."""
    digest = place.digest
    choice = mixed_bits(seed, digest, _CHOICE) % NUM_CHOICES
    if mixed_bits(seed, digest, _AGREE) / 2.0**64 >= agreement:
        choice += 1 + mixed_bits(seed, digest, _OTHER) % (NUM_CHOICES - 1)
    return choice % NUM_CHOICES
