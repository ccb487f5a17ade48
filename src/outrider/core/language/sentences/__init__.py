# SPDX-License-Identifier: Apache-2.0
"""Turns a whole sentence into a stop, which nothing refuses, into a plan, or into a refusal."""
