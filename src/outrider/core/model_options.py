# SPDX-License-Identifier: Apache-2.0
"""The options for running a model, shared by the nodes' parameters and the models' loader."""

from __future__ import annotations

from typing import Literal

Precision = Literal["fp32", "bf16", "int8", "int4"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8", "int4")
"""The number formats for the weights of the language half."""

Runtime = Literal["eager", "graphs"]
RUNTIMES: tuple[Runtime, ...] = ("eager", "graphs")
"""Whether a draft model runs operation by operation or as static graphs of onnxruntime."""

PROVIDERS = ("cpu", "cuda", "tensorrt", "openvino", "qnn")
"""Execution providers of onnxruntime that static graphs may run on."""

DEFAULT_MAX_LENGTH = 512
"""Tokens of a prompt and its text, image tokens included: enough for the shipped pair's frames."""

MAX_THREADS = 1024
"""The most threads for a model's arithmetic: torch ends the process if a system cannot create them."""

DEVICES = ("cpu", "cuda")
"""The devices for a target's weights."""

DRAFT_BRANCHES = 2
"""How many likely outcomes a robot's draft model extends at once; more gain little."""

ROWS_TOGETHER = {"cpu": 8, "cuda": 16}
"""By device: the most tokens of one session in a forward pass that it shares with others."""

ROWS_OF_A_BATCH = {"cpu": 72, "cuda": 128}
"""By device: the most tokens of all sessions that take little longer than one."""
