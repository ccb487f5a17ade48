# SPDX-License-Identifier: Apache-2.0
"""Builds the edge's frames from a text and the tree of drafts after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core.frames import Cancel, Draft, Open, Proposal, Resume, Rules
from outrider.core.pairs import checksum_text
from outrider.decoding.acceptance.philox import signed
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node, branches_to
from outrider.decoding.edge.text import EdgeText
from outrider.decoding.protocol.branch_codec import pack_runs


@dataclass(frozen=True)
class FrameBuilder:
    """Builds frames. `fingerprint`: of the tokenizer."""

    session: int
    config: DecodingConfig
    fingerprint: str

    def open(self, text: EdgeText) -> Open:
        """Return the frame that asks for the text, with its final tokens. A text that was begun is asked of
        the target that wrote its first tokens.
        """
        config, plan = self.config, self.config.plan
        rules = Rules(
            plan.when_idle,
            config.scheme.name,
            config.temperature,
            config.top_p,
            config.top_k,
            signed(text.sampling.seed),
            plan.bonus,
            plan.hints,
        )
        return Open(
            self.session,
            text.epoch,
            text.committed.digest,
            text.prompt.text,
            text.prompt.jpeg,
            text.committed.tokens,
            text.max_new_tokens,
            self.fingerprint,
            rules,
            config.wanted_model if text.begun_by is None else checksum_text(text.begun_by),
        )

    def resume(self, text: EdgeText) -> Resume:
        """Return the frame that asks for what was missed. It starts before the edge's own last token, if
        any: the cloud may not have it.
        """
        base = len(text.committed) - (text.settled is not None)
        return Resume(self.session, text.epoch, base, text.committed.digest_at(base))

    def more_draws(self, text: EdgeText, draws: int) -> Resume:
        """Return the frame that asks for further draws of the next token; `draws` have been used."""
        return Resume(self.session, text.epoch, len(text.committed), text.committed.digest, draws)

    def cancel(self, text: EdgeText) -> Cancel:
        """Return the frame that cancels the text."""
        return Cancel(self.session, text.epoch)

    def draft(self, text: EdgeText, tree: DraftTree, nodes: Sequence[Node]) -> Draft:
        """Return the frame with the branches that hold these nodes."""
        parent, runs = branches_to(tree, nodes)
        digest = None if parent is tree.root else parent.digest
        return Draft(self.session, text.epoch, parent.length, digest, pack_runs(runs))

    def proposal(self, text: EdgeText, tree: DraftTree, nodes: Sequence[Node]) -> Proposal:
        """Return the frame with one branch and its evidence. If the text's last token is the edge's own, the
        cloud receives it with the branch that follows.
        """
        first = nodes[0].parent if nodes else tree.root
        assert first is not None
        settled = text.settled if first is tree.root else None
        base = first.length - (settled is not None)
        digest = text.committed.digest_at(base) if settled is not None else first.digest
        tokens = tuple(node.token for node in nodes)
        evidence = self.config.scheme.pack_evidence(tokens, [node.row for node in nodes])
        return Proposal(self.session, text.epoch, base, digest, settled, tokens, evidence)
