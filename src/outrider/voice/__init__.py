# SPDX-License-Identifier: Apache-2.0
"""Speech to sentences, offline: engines behind `core.hearing.AsrEngine`, and sound files."""
