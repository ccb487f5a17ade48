# SPDX-License-Identifier: Apache-2.0
"""The embedded MuJoCo world: homes, a Go2-sized robot, and the exploring expert that is imitated."""

import ctypes
import os

# Before mujoco's first import anywhere in the package: it picks its OpenGL platform then.
if os.environ.setdefault("MUJOCO_GL", "egl") == "egl":
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        # So that mujoco can be imported: all but pictures works, and the first of them says what is missing.
        os.environ["MUJOCO_GL"] = "off"
