"""Helpers for tests of an edge machine: frames for it, and answers to its jobs."""

from __future__ import annotations

from support.toys import JPEG

from outrider.core.frames import Draft, Hint, Opened, Verdict
from outrider.core.values import Prompt
from outrider.decoding.acceptance.schemes import Choices
from outrider.decoding.config import DecodingConfig
from outrider.decoding.edge.actions import Send
from outrider.decoding.edge.machine import EdgeMachine
from outrider.decoding.fakes.synthetic import ToyTokenizer
from outrider.decoding.protocol.branch_codec import Run, pack_runs
from outrider.decoding.protocol.prefix_digest import extend_digest, prompt_digest

PROMPT = Prompt("find the chair", JPEG)
ROOT = prompt_digest(PROMPT)
TOKENIZER = ToyTokenizer(32)


def edge(max_new_tokens: int = 20, **options) -> EdgeMachine:
    """Return a machine that has sent its second Open at 0 s; greedy `sd` by default.

    It knows the target's end tokens from the first text.
    """
    options = {"strategy": "sd", "acceptance": "greedy", **options}
    machine = EdgeMachine(5, DecodingConfig(**options), TOKENIZER, epoch=-1)
    machine.begin(PROMPT, max_new_tokens, 0.0)
    machine.receive(Opened(5, 0, 0, ROOT, 0, tuple(TOKENIZER.end_ids)), 0.0)
    machine.begin(PROMPT, max_new_tokens, 0.0)
    return machine


def prefill(machine: EdgeMachine, now_s: float = 0.0) -> list:
    return machine.complete(machine.next_job(), (), now_s, 0.01)


def grow(
    machine: EdgeMachine, *choices: tuple[int, ...], now_s: float = 0.0, compute_s: float = 0.01
) -> list:
    """Answer the machine's next job with these choices, one tuple for each of its prefixes."""
    return machine.complete(machine.next_job(), [Choices(some) for some in choices], now_s, compute_s)


def draft(machine: EdgeMachine, *tokens: int) -> list:
    """Prefill, then answer the machine's jobs with these tokens; return the actions."""
    actions = prefill(machine)
    for token in tokens:
        actions += grow(machine, (token,))
    return actions


def verdict(
    text: tuple[int, ...], base: int, drafted: int = 0, epoch: int = 1, passes: int = 1, verify_us: int = 10
) -> Verdict:
    """Return the verdict that the text after `base` is final."""
    digest = extend_digest(ROOT, text[:base])
    return Verdict(5, epoch, base, digest, text[base:], drafted, passes, verify_us)


def drafted(text: tuple[int, ...], *tokens: int) -> Send:
    """Return the action that sends a Draft of one branch after `text`."""
    return Send(Draft(5, 1, len(text), None, pack_runs([Run(0, tokens)])))


def hint(tokens: tuple[int, ...], confidence: int = 80, exit_index: int = 1, base: int = 0) -> Hint:
    return Hint(5, 1, base, exit_index, confidence, tokens)
