# SPDX-License-Identifier: Apache-2.0
"""The sizes of the papers' models, and the costs that follow: of a full output head and of a draft."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetSize:
    """Widths of a target's layers, from its published configuration.

    `billions`: parameters of the language model. `queries` and `keys`: widths of the projections.
    `matrices`: number of feed-forward matrices, 3 if gated. `eagle`: the row of `EAGLE` nearest in size.
    """

    billions: float
    hidden: int
    inner: int
    queries: int
    keys: int
    vocabulary: int
    eagle: str
    matrices: int = 3

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer without its norms and biases."""
        attention = 2 * self.hidden * (self.queries + self.keys)
        return attention + self.matrices * self.hidden * self.inner

    @property
    def full_head_share(self) -> float:
        """The time of an output layer over the whole vocabulary, in layers: both read their weights once."""
        return self.hidden * self.vocabulary / self.layer_parameters


TARGETS = {
    "vicuna-7b": TargetSize(6.74, 4096, 11008, 4096, 4096, 32000, "LLaMA-Instruct 3.1 8B"),
    "vicuna-13b": TargetSize(13.0, 5120, 13824, 5120, 5120, 32000, "Vicuna 13B"),
    "llama2-7b": TargetSize(6.74, 4096, 11008, 4096, 4096, 32000, "LLaMA-Instruct 3.1 8B"),
    "qwen2-vl-7b": TargetSize(7.62, 3584, 18944, 3584, 512, 152064, "LLaMA-Instruct 3.1 8B"),
    "qwen3-32b": TargetSize(32.8, 5120, 25600, 8192, 1024, 151936, "LLaMA-Instruct 3.3 70B"),
    "llama3.1-70b": TargetSize(70.6, 8192, 28672, 8192, 1024, 128256, "LLaMA-Instruct 3.3 70B"),
    "qwen2.5-1.5b": TargetSize(1.54, 1536, 8960, 1536, 256, 151936, "LLaMA-Instruct 3.1 8B"),
    "opt-6.7b": TargetSize(6.66, 4096, 16384, 4096, 4096, 50272, "LLaMA-Instruct 3.1 8B", matrices=2),
    "opt-13b": TargetSize(12.9, 5120, 20480, 5120, 5120, 50272, "Vicuna 13B", matrices=2),
}
DRAFT_BILLIONS = {
    "vicuna-68m": 0.068,
    "vicuna-160m": 0.162,
    "qwen2-vl-2b": 1.54,
    "qwen3-0.6b": 0.6,
    "qwen2.5-0.5b": 0.494,
    "llama3.2-1b": 1.24,
    "opt-125m": 0.125,
}


@dataclass(frozen=True)
class Published:
    """Speed over autoregressive decoding and tokens per round, as a paper prints them."""

    speedup: float
    tokens_per_round: float


EAGLE = {
    "LLaMA-Instruct 3.1 8B": (Published(4.44, 6.23), Published(3.45, 4.92)),
    "Vicuna 13B": (Published(5.51, 6.62), Published(4.65, 5.67)),
    "LLaMA-Instruct 3.3 70B": (Published(4.12, 5.88), Published(3.95, 5.66)),
}
"""EAGLE-3 (arXiv 2503.01840), Table 1: means of five tasks at temperature 0 and 1.

A trained head drafts a tree at the target; its acceptance is that of its own texts, not of ours.
"""


def eagle_of(target: str, sampled: bool) -> Published:
    """Return what EAGLE-3 prints for the target nearest in size."""
    return EAGLE[TARGETS[target].eagle][sampled]
