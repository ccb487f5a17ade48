# SPDX-License-Identifier: Apache-2.0
"""The Go2's sensors: its front camera, its lidar, and pictures as JPEG."""
