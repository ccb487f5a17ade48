# SPDX-License-Identifier: Apache-2.0
"""How a model may be run; the nodes' parameters and the models' loader read it from here."""

from __future__ import annotations

from typing import Literal

Precision = Literal["fp32", "bf16", "int8", "int4"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8", "int4")
"""What the weights of the language half are kept in."""

Runtime = Literal["eager", "graphs"]
RUNTIMES: tuple[Runtime, ...] = ("eager", "graphs")
"""Whether a draft runs op by op or as static graphs of onnxruntime."""

PROVIDERS = ("cpu", "cuda", "tensorrt", "openvino", "qnn")
"""Execution providers of onnxruntime that static graphs may run on."""

DEFAULT_MAX_LENGTH = 512
"""Room for a prompt and its text, image tokens included: enough for the shipped pair's frames."""

MOST_THREADS = 1024
"""Of a model's arithmetic: where a system has no room for so many, torch ends the process."""

DEVICES = ("cpu", "cuda")
"""Where a target's weights may lie."""

DRAFT_BRANCHES = 2
"""Likely outcomes that a robot's draft model goes on from at once: with more it gains little."""

ROWS_TOGETHER = {"cpu": 8, "cuda": 16}
"""As many of a session's tokens as a device takes in one forward beside those of others."""

ROWS_OF_A_BATCH = {"cpu": 72, "cuda": 128}
"""As many tokens of all sessions as take a device little longer than one."""
