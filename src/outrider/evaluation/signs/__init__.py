# SPDX-License-Identifier: Apache-2.0
"""Tests with printed words in simulated homes: do words that the camera sees cause unwanted motion?"""
