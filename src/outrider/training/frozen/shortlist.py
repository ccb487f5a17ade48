# SPDX-License-Identifier: Apache-2.0
"""The tokens that a small network predicts: those which nearly all prompts and answers use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from transformers import PreTrainedTokenizerFast

from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.language.prompt import END_OF_TEXT
from outrider.core.training_data import Example, Query
from outrider.training.frozen.backbone import Backbone

ANSWER_SHARE, PROMPT_SHARE = 0.999, 0.99


def choose_shortlist(tokenizer: PreTrainedTokenizerFast, queries: Sequence[Query]) -> list[int]:
    """Return ascending ids: of all actions, and the most frequent ones that cover nearly all texts.

    The texts are answers and prompts. Prompts count because answers repeat their words, even words that are
    rare in the data.
    """
    actions = _count(tokenizer, [action + "\n" for action in ACTION_TEXTS] + [END_OF_TEXT])
    answers = _count(tokenizer, [query.answer + END_OF_TEXT for query in queries])
    prompts = _count(tokenizer, [query.user_text for query in queries])
    chosen = set(actions) | most_frequent(answers, ANSWER_SHARE) | most_frequent(prompts, PROMPT_SHARE)
    return sorted(chosen)


def most_frequent(counts: Counter[int], share: float) -> set[int]:
    """Return the fewest tokens that make up at least a share of all occurrences."""
    wanted, chosen = share * counts.total(), set()
    for token_id, count in counts.most_common():
        if wanted <= 0:
            break
        chosen.add(token_id)
        wanted -= count
    return chosen


def _count(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Counter[int]:
    return Counter(i for ids in tokenizer(texts, add_special_tokens=False)["input_ids"] for i in ids)


def shortlist(backbone: Backbone, examples: Sequence[Example]) -> set[int]:
    """Return the tokens that nearly all texts use, and the backbone's common tokens."""
    queries = [query for example in examples for query in example.queries]
    return {*choose_shortlist(backbone.tokenizer, queries), *range(backbone.common_tokens)}
