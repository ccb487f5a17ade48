# SPDX-License-Identifier: Apache-2.0
"""The embedded MuJoCo world: homes, a Go2-sized robot, and the exploring expert that models imitate."""

import ctypes
import os

# Before mujoco's first import in the package, at which it chooses its OpenGL platform.
if os.environ.setdefault("MUJOCO_GL", "egl") == "egl":
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        # Without this mujoco could not be imported. Now only pictures fail, with a message of the cause.
        os.environ["MUJOCO_GL"] = "off"
