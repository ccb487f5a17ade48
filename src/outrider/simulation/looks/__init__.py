# SPDX-License-Identifier: Apache-2.0
"""The appearance of a simulated home to the camera: its surfaces and lights, the lens, and the picture."""
