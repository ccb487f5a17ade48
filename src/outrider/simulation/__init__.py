# SPDX-License-Identifier: Apache-2.0
"""The embedded MuJoCo world: homes, a Go2-sized robot, and the exploring expert that models imitate."""

import ctypes
import os

# Set before the package first imports mujoco, which chooses its OpenGL platform then.
os.environ["MUJOCO_GL"] = os.environ.get("MUJOCO_GL") or "egl"
if os.environ["MUJOCO_GL"] == "egl":
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        # Otherwise mujoco could not be imported. Now only rendering fails, and its error names the cause.
        os.environ["MUJOCO_GL"] = "off"
