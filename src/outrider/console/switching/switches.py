# SPDX-License-Identifier: Apache-2.0
"""The emulated link and the decoding strategy: in force, offered, and requested. Without I/O."""

from __future__ import annotations

from typing import Annotated

import msgspec

NOT_EMULATED = "this robot's link is not emulated: there is none to switch"
NO_STRATEGY = "the navigator has not told its strategy: is it running?"
Name = Annotated[str, msgspec.Meta(max_length=64)]


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="switch"):
    """Request another link or strategy; an empty name means no change.

    `rtt_ms` is the link's minimum round trip: 0 means the named link's own, or no change if none is named.
    """

    link: Name = ""
    rtt_ms: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)] = 0.0
    strategy: Name = ""

    @property
    def words(self) -> str:
        """Returns the request in words, for the journal."""
        rtt = f"{self.rtt_ms:g} ms" if self.rtt_ms else ""
        return " ".join(filter(None, ("link" if self.asks_link else "", self.link, rtt, self.strategy)))

    @property
    def asks_link(self) -> bool:
        """Whether another link is requested."""
        return bool(self.link or self.rtt_ms)


class Switches(msgspec.Struct, frozen=True, tag_field="is", tag="switches"):
    """What is offered and in force. If no link is emulated, `link` is empty and no links are offered."""

    link: str = ""
    rtt_ms: float = 0.0
    links: tuple[str, ...] = ()
    rtt_limits_ms: tuple[float, float] = (1.0, 600.0)
    strategy: str = ""
    strategies: tuple[str, ...] = ()

    def refusal(self, request: Switch) -> str:
        """Returns why a switch is refused; empty if it is not."""
        return (self._link_refusal(request) if request.asks_link else "") or (
            self._strategy_refusal(request.strategy) if request.strategy else ""
        )

    def _link_refusal(self, request: Switch) -> str:
        least, most = self.rtt_limits_ms
        if not self.link:
            return NOT_EMULATED
        if request.link and request.link not in self.links:
            return f'there is no link "{request.link}": choose one of {", ".join(self.links)}'
        if request.rtt_ms and not least <= request.rtt_ms <= most:
            return f"a round trip lies between {least:g} and {most:g} ms: {request.rtt_ms:g} ms does not"
        return ""

    def _strategy_refusal(self, name: str) -> str:
        if not self.strategy:
            return NO_STRATEGY
        known = ", ".join(self.strategies)
        return "" if name in self.strategies else f'there is no strategy "{name}": choose one of {known}'
