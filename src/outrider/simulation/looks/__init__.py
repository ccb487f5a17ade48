# SPDX-License-Identifier: Apache-2.0
"""How a simulated home looks to the camera: its surfaces and lights, the lens, and the picture it gives."""
