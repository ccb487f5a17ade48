# SPDX-License-Identifier: Apache-2.0
"""The words both sides use: prompt, grammar of instructions, questions, and the action table."""
