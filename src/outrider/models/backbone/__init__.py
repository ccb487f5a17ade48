# SPDX-License-Identifier: Apache-2.0
"""The Qwen2-VL forward pass: text stack, vision tower, caches, exits, and captured steps."""
