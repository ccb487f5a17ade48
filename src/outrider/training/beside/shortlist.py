# SPDX-License-Identifier: Apache-2.0
"""The shortlist on which early exits choose: a small part of the vocabulary that nearly all texts keep to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from transformers import PreTrainedTokenizerFast

from outrider.core.language.actions import ACTION_TEXTS
from outrider.core.language.prompt import END_OF_TEXT
from outrider.core.training_data import Query

ANSWER_SHARE = 0.999
PROMPT_SHARE = 0.99


def choose_shortlist(tokenizer: PreTrainedTokenizerFast, queries: Iterable[Query]) -> list[int]:
    """Ascending ids: of all actions, and the most frequent ones that make up nearly all answers and prompts.

    Prompts count because answers repeat their words, also those that are rare in the data.
    """
    queries = list(queries)
    actions = _count(tokenizer, [action + "\n" for action in ACTION_TEXTS] + [END_OF_TEXT])
    answers = _count(tokenizer, [query.answer + END_OF_TEXT for query in queries])
    prompts = _count(tokenizer, [query.user_text for query in queries])
    chosen = set(actions) | most_frequent(answers, ANSWER_SHARE) | most_frequent(prompts, PROMPT_SHARE)
    return sorted(chosen)


def most_frequent(counts: Counter[int], share: float) -> set[int]:
    """The fewest tokens that make up at least a share of all occurrences."""
    wanted, chosen = share * counts.total(), set()
    for token_id, count in counts.most_common():
        if wanted <= 0:
            break
        chosen.add(token_id)
        wanted -= count
    return chosen


def _count(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Counter[int]:
    return Counter(i for ids in tokenizer(texts, add_special_tokens=False)["input_ids"] for i in ids)
