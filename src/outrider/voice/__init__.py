# SPDX-License-Identifier: Apache-2.0
"""Speech, offline: recognition engines behind `core.hearing.AsrEngine`, synthesis, and sound files."""
