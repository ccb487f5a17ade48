# SPDX-License-Identifier: Apache-2.0
"""Builds the edge's frames for one text, from the text and the tree of drafts after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.core.frames import Cancel, Draft, Open, Proposal, Resume, Rules
from outrider.core.pairs import checksum_text
from outrider.core.values import Prompt
from outrider.decoding.acceptance.philox import signed
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drafting.draft_tree import DraftTree, Node, branches_to
from outrider.decoding.protocol.branch_codec import pack_runs
from outrider.decoding.protocol.prefix_digest import DigestedText
from outrider.decoding.protocol.sampling_rules import Sampling


@dataclass(frozen=True)
class FrameBuilder:
    """Builds frames. `text` grows as the edge commits; `fingerprint`: of the tokenizer."""

    session: int
    epoch: int
    config: DecodingConfig
    sampling: Sampling
    fingerprint: str
    max_new_tokens: int
    text: DigestedText

    def open(self, prompt: Prompt, begun_by: int | None = None) -> Open:
        """Return the frame that asks for the text, with its final tokens; `begun_by`: the checksum of the
        target that wrote the first of these.
        """
        config, plan = self.config, self.config.plan
        rules = Rules(
            plan.when_idle,
            config.scheme.name,
            config.temperature,
            config.top_p,
            config.top_k,
            signed(self.sampling.seed),
            plan.bonus,
            plan.hints,
        )
        return Open(
            self.session,
            self.epoch,
            self.text.digest,
            prompt.text,
            prompt.jpeg,
            self.text.tokens,
            self.max_new_tokens,
            self.fingerprint,
            rules,
            config.wanted_model if begun_by is None else checksum_text(begun_by),
        )

    def resume(self, settled: int | None) -> Resume:
        """Return the frame that asks for what was missed. It starts before `settled`, the edge's own last
        token, if any: the cloud may not have it.
        """
        base = len(self.text) - (settled is not None)
        return Resume(self.session, self.epoch, base, self.text.digest_at(base))

    def more_draws(self, draws: int) -> Resume:
        """Return the frame that asks for further draws of the next token; `draws` have been used."""
        return Resume(self.session, self.epoch, len(self.text), self.text.digest, draws)

    def cancel(self) -> Cancel:
        """Return the frame that cancels the text."""
        return Cancel(self.session, self.epoch)

    def draft(self, tree: DraftTree, nodes: Sequence[Node]) -> Draft:
        """Return the frame with the branches that hold these nodes."""
        parent, runs = branches_to(tree, nodes)
        digest = None if parent is tree.root else parent.digest
        return Draft(self.session, self.epoch, parent.length, digest, pack_runs(runs))

    def proposal(self, tree: DraftTree, nodes: Sequence[Node], settled: int | None) -> Proposal:
        """Return the frame with one branch and its evidence. If the text's last token is the edge's own,
        `settled`, the cloud receives it with the branch that follows.
        """
        first = nodes[0].parent if nodes else tree.root
        assert first is not None
        settled = settled if first is tree.root else None
        base = first.length - (settled is not None)
        digest = self.text.digest_at(base) if settled is not None else first.digest
        tokens = tuple(node.token for node in nodes)
        evidence = self.config.scheme.pack_evidence(tokens, [node.row for node in nodes])
        return Proposal(self.session, self.epoch, base, digest, settled, tokens, evidence)
