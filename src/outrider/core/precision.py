"""What a model's weights may be kept in; the nodes' parameters and the models' loader read it from here."""

from __future__ import annotations

from typing import Literal

Precision = Literal["fp32", "bf16", "int8", "int4"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16", "int8", "int4")
