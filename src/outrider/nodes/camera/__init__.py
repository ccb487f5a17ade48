# SPDX-License-Identifier: Apache-2.0
"""Pictures from devices, files, streams, topics and the Go2's camera."""
