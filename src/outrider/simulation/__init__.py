# SPDX-License-Identifier: Apache-2.0
"""The embedded MuJoCo world: homes, a Go2-sized robot, and the exploring expert that models imitate."""

import ctypes
import os

from outrider.core.errors import ConfigError

_DRAWS = ("egl", "off", "")
_SETTINGS = ("MUJOCO_GL", "MUJOCO_EGL_DEVICE_ID", "PYOPENGL_PLATFORM")


def drawing_remedy() -> str:
    """Returns the remedy if no picture can be drawn: unset OpenGL's variables, or install its packages."""
    given = [name for name in _SETTINGS if os.environ.get(name, "").lower() not in _DRAWS]
    if given:
        return f"run `unset {' '.join(given)}`"
    return "run `sudo apt-get install -y libegl1 libgl1 libgl1-mesa-dri`"


# Set before the package first imports mujoco, which chooses its OpenGL platform then.
os.environ["MUJOCO_GL"] = os.environ.get("MUJOCO_GL") or "egl"
if os.environ["MUJOCO_GL"] == "egl":
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        # Otherwise mujoco could not be imported. Now only rendering fails, and its error names the cause.
        os.environ["MUJOCO_GL"] = "off"
else:
    try:
        import mujoco  # noqa: F401
    except (RuntimeError, AttributeError) as error:  # an unknown platform, or a library that lacks one
        raise ConfigError(
            f"MUJOCO_GL={os.environ['MUJOCO_GL']} cannot be used ({error}): {drawing_remedy()}"
        ) from error
