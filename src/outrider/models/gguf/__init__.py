# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in one GGUF file, as llama.cpp writes them: header, configuration, weights."""
