# SPDX-License-Identifier: Apache-2.0
"""What to do if no picture can be drawn without a screen."""

import os

_DRAWS = ("egl", "off", "")
_SETTINGS = ("MUJOCO_GL", "MUJOCO_EGL_DEVICE_ID", "PYOPENGL_PLATFORM")


def drawing_remedy() -> str:
    """Returns the remedy if no picture can be drawn: unset OpenGL's variables, or install its packages."""
    settings = [name for name in _SETTINGS if os.environ.get(name, "").lower() not in _DRAWS]
    if settings:
        return f"run `unset {' '.join(settings)}`"
    return "run `sudo apt-get install -y libegl1 libgl1 libgl1-mesa-dri`"
