# SPDX-License-Identifier: Apache-2.0
"""The words that both sides use: the prompt, the grammar of instructions, questions, and the action table."""
