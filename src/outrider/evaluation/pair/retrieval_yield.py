# SPDX-License-Identifier: Apache-2.0
"""Tokens that a verification yields with drafts from given sources: real texts, real verifications."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from outrider.core.endings import has_ended
from outrider.core.ports import LanguageModel
from outrider.core.values import Prompt
from outrider.decoding.drafting.retrieval.drafts import CALIBRATION, NUM_EXPECTED, RetrievedDrafts
from outrider.decoding.drafting.retrieval.reuse import longest_run
from outrider.decoding.drafting.retrieval.tree import TokenTree
from outrider.decoding.execution.cached_sequence import CachedSequence
from outrider.decoding.policy.estimators import AcceptanceRates
from outrider.evaluation.pair.speculation import emitted_tokens

MODEL = "model"


@dataclass
class Yield:
    """Sums over verifications, and processor seconds.

    `draft_s`: of retrieving each verification's draft. `learning_s`: of storing prompts and verified tokens.
    """

    verifications: int = 0
    emitted: int = 0
    drafted: int = 0
    model_tokens: int = 0
    learning_s: float = 0.0
    calibration_s: float = 0.0
    calibrated_tokens: int = 0
    texts: list[tuple[int, ...]] = field(default_factory=list)
    draft_s: list[float] = field(default_factory=list)

    @property
    def acceptance_length(self) -> float:
        """Tokens per verification, the target's own included."""
        return self.emitted / self.verifications


class Drafting:
    """Greedy decoding in chains of `num_draft_tokens` from the named sources; `model` is the draft model."""

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel | None,
        sources: Sequence[str],
        num_draft_tokens: int,
        max_new_tokens: int,
    ) -> None:
        self._end_ids = target.end_ids
        self._tokenizer = target.tokenizer
        self._target = CachedSequence(target)
        self._draft = CachedSequence(draft) if draft is not None and MODEL in sources else None
        self._retrieved = RetrievedDrafts([name for name in sources if name != MODEL], self._end_ids)
        self._is_calibrated = CALIBRATION in sources
        self._acceptance = AcceptanceRates()
        self._by_model: dict[int, int] = {}
        self._limit, self._max_new_tokens = num_draft_tokens, max_new_tokens

    def run(self, prompts: Iterable[Prompt], keep_history: bool) -> Yield:
        """Decode every prompt; without history each is decoded as if it were the first."""
        total = Yield()
        for prompt in prompts:
            if not keep_history:
                self._retrieved.forget()
            total.texts.append(self._decode(prompt, total))
        return total

    def _decode(self, prompt: Prompt, total: Yield) -> tuple[int, ...]:
        for sequence in (self._target, self._draft):
            if sequence is not None:
                sequence.prefill(prompt, self._max_new_tokens)
        self._begin(prompt, total)
        self._calibrate(total)
        text: list[int] = []
        while len(text) < self._max_new_tokens and not has_ended(text, self._end_ids):
            chain = self._chain(text, total)
            choices = self._target.logits([*text, *chain], len(chain)).argmax(-1).tolist()
            emitted = emitted_tokens(chain, choices, self._end_ids)
            self._learn(emitted, total)
            self._judge_model(text, emitted)
            self._keep_rejected(chain, choices, emitted, total)
            text += emitted
            total.verifications += 1
            total.drafted += len(chain)
        total.emitted += len(text)
        return tuple(text)

    def _begin(self, prompt: Prompt, total: Yield) -> None:
        tokens = self._tokenizer.encode(prompt.text)
        started_s = time.thread_time()
        self._retrieved.begin(tokens)
        total.learning_s += time.thread_time() - started_s

    def _keep_rejected(
        self, chain: Sequence[int], choices: Sequence[int], emitted: Sequence[int], total: Yield
    ) -> None:
        """Keep the run of rejected tokens that agrees with the target after the mistake."""
        started_s = time.thread_time()
        start = len(emitted)
        run = longest_run(chain[start:], choices[start : len(chain)])
        if run:
            self._retrieved.keep(chain[start + run[0] : start + run[1]])
        total.learning_s += time.thread_time() - started_s

    def _calibrate(self, total: Yield) -> None:
        """Calibrate by the draft model's prefill, as on the robot, or else, as in sd.npu, by the target's."""
        if not self._is_calibrated:
            return
        started_s = time.thread_time()
        successors = (self._draft or self._target).expected(NUM_EXPECTED)
        self._retrieved.calibrate(successors)
        total.calibration_s += time.thread_time() - started_s
        total.calibrated_tokens += len(successors.ids)

    def _learn(self, emitted: Sequence[int], total: Yield) -> None:
        started_s = time.thread_time()
        self._retrieved.extend(emitted)
        total.learning_s += time.thread_time() - started_s

    def _chain(self, text: Sequence[int], total: Yield) -> list[int]:
        """Return a chain: retrieved tokens if likelier right than the draft model's tokens, else those."""
        self._by_model = {}
        total.draft_s.append(0.0)
        chain: list[int] = []
        while len(chain) < self._limit and not has_ended(chain, self._end_ids):
            retrieved = self._retrieve(chain, total)
            if not retrieved and self._draft is None:
                break
            if not retrieved:
                retrieved = [self._model_token([*text, *chain], total)]
                self._by_model[len(text) + len(chain)] = retrieved[0]
            chain += retrieved
        return chain

    def _retrieve(self, chain: Sequence[int], total: Yield) -> list[int]:
        started_s = time.thread_time()
        likely = list(self._retrieved.likely(chain, self._limit - len(chain)))
        least = 0.0 if self._draft is None else self._acceptance.rate()
        tokens: list[int] = []
        for token, chance in likely:
            if chance < least:
                break
            tokens.append(token)
        total.draft_s[-1] += time.thread_time() - started_s
        return tokens

    def _model_token(self, text: Sequence[int], total: Yield) -> int:
        assert self._draft is not None
        total.model_tokens += 1
        return int(self._draft.logits(text, 0)[0].argmax())

    def _judge_model(self, text: Sequence[int], emitted: Sequence[int]) -> None:
        for offset, token in enumerate(emitted):
            drafted = self._by_model.get(len(text) + offset)
            if drafted is not None:
                self._acceptance.on_outcome(0 if drafted == token else None)


class TreeDrafting(Drafting):
    """Greedy decoding in trees of `num_draft_tokens` tokens, as if the target verified each in one pass.

    It follows the path through the tree that the target's own choices take. The engine verifies chains.
    """

    def _decode(self, prompt: Prompt, total: Yield) -> tuple[int, ...]:
        self._target.prefill(prompt, self._max_new_tokens)
        self._begin(prompt, total)
        self._calibrate(total)
        text: list[int] = []
        while len(text) < self._max_new_tokens and not has_ended(text, self._end_ids):
            started_s = time.thread_time()
            tree = self._retrieved.tree(self._limit)
            total.draft_s.append(time.thread_time() - started_s)
            choices = self._target.logits([*text, *tree.chain], len(tree.chain)).argmax(-1).tolist()
            emitted = self._path_of(tree, text)
            self._learn(emitted, total)
            right = emitted_tokens(tree.chain, choices, self._end_ids)
            self._keep_rejected(tree.chain, choices, right, total)
            text += emitted
            total.verifications += 1
            total.drafted += tree.num_tokens
        total.emitted += len(text)
        return tuple(text)

    def _path_of(self, tree: TokenTree, text: Sequence[int]) -> list[int]:
        """Return the target's own tokens as far as the tree contains them, and one more."""
        emitted: list[int] = []
        while tree.holds(emitted) and not has_ended(emitted, self._end_ids):
            emitted.append(int(self._target.logits([*text, *emitted], 0)[0].argmax()))
        return emitted
