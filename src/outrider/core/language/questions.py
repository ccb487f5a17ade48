# SPDX-License-Identifier: Apache-2.0
"""The prompt of a question that memory answers, and documents in which private words are masked.

Its form is defined only here: training data, the robot and the cloud render it with the same functions.

A private document is masked before a model reads it for a text that two sides write together: words that
are not in the question become slots, `#1`, `#2`. Their words stay on the robot, which fills them in once
the text is final. So neither a token drafted from a private document nor a distribution over tokens can
hold a word of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from outrider.core.errors import ConfigError
from outrider.core.language.prompt import PROMPT_SUFFIX, as_words

ANSWER_MODES = ("memory", "aggregate")
"""How a robot answers questions: alone, or in one text with a cloud."""
QUOTES = "quotes"
"""The name of the model without weights, `aggregation.quoting`; any other name is a folder."""
QUESTION_SYSTEM_TEXT = "Answer from memory."
_HEAD = f"<|im_start|>system\n{QUESTION_SYSTEM_TEXT}<|im_end|>\n<|im_start|>user\nmemory:\n"
_TASK = "task: "
_PLAIN = r"[^\s.,;:!?()\"']"
_WORD = re.compile(rf"{_PLAIN}+(?:[.,:'’-]+{_PLAIN}+)*")
"""Everything but blanks and sentence marks: signs of any script count as words."""
_SLOT = re.compile(r"#(\d+)")
_FUNCTION_TEXT = """
    a an the this that is are was were be been i my me we our you your he his she her it its they of in on at
    to by for from with and or so
"""
FUNCTION_WORDS = frozenset(_FUNCTION_TEXT.split())
"""Words without meaning of their own; between public words they stay."""


def question_prompt(question: str, documents: Iterable[str] = ()) -> str:
    """Return the whole chat text. Each document is one line of it, without control tokens."""
    lines = "".join(f"{' '.join(document.split())}\n" for document in documents)
    return f"{_HEAD}{as_words(lines)}{_TASK}{as_words(' '.join(question.split()))}{PROMPT_SUFFIX}"


def parts_of(prompt: str) -> tuple[str, list[str]]:
    """Return the question and the documents of a prompt. Raises ConfigError for any other text."""
    *documents, task = prompt.removeprefix(_HEAD).removesuffix(PROMPT_SUFFIX).split("\n")
    question = task.removeprefix(_TASK)
    if not question.strip() or question_prompt(question, documents) != prompt:
        raise ConfigError("this prompt is no question: ask as `core.language.questions` renders it")
    return question, documents


def question_of(prompt: str) -> str:
    """Return the question of a prompt without documents. Raises ConfigError for any other text."""
    question, documents = parts_of(prompt)
    if documents:
        raise ConfigError("a question must come without documents: each side has its own")
    return question


class Slots:
    """The private words of one text's documents, by the number of their slot, from 1.

    They stay on the robot.
    """

    def __init__(self, question: str) -> None:
        self._public = {word.lower() for word in _WORD.findall(question)} - FUNCTION_WORDS
        self._words: list[str] = []

    def mask(self, document: str) -> str:
        """Return the document with a slot for every run of words that are not in the question."""
        masked, end = "", 0
        for start, stop in self._private_runs(document):
            self._words.append(document[start:stop])
            masked += f"{document[end:start]}#{len(self._words)}"
            end = stop
        return masked + document[end:]

    def fill(self, text: str) -> str:
        """Return a text with its slots filled; an unknown slot becomes "something"."""
        return _SLOT.sub(lambda slot: self._word(int(slot[1])), text)

    def _word(self, number: int) -> str:
        return self._words[number - 1] if 1 <= number <= len(self._words) else "something"

    def _private_runs(self, document: str) -> Sequence[tuple[int, int]]:
        """Return (start, end) from first to last private word of each run without a word of the question."""
        runs: list[tuple[int, int]] = []
        is_open = False
        for word in _WORD.finditer(document):
            if word[0].lower() in self._public:
                is_open = False
            elif word[0].lower() not in FUNCTION_WORDS:
                runs[len(runs) - is_open :] = [(runs[-1][0] if is_open else word.start(), word.end())]
                is_open = True
        return runs
