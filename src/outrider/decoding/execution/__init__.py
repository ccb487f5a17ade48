# SPDX-License-Identifier: Apache-2.0
"""Carries out the machines' jobs on models."""
