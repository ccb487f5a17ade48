# SPDX-License-Identifier: Apache-2.0
"""Imitation training of the small Qwen2-VL pair: tokenizer, data, network, loop, export."""
