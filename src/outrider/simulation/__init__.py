# SPDX-License-Identifier: Apache-2.0
"""The embedded MuJoCo world: homes, a Go2-sized robot, and the exploring expert that is imitated."""

import os

# Before mujoco's first import anywhere in the package: it picks its OpenGL platform then.
os.environ.setdefault("MUJOCO_GL", "egl")
