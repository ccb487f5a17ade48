# SPDX-License-Identifier: Apache-2.0
"""Imports MuJoCo for the package; an OpenGL platform that it cannot use is an error that names the remedy."""

import os

from outrider.core.errors import ConfigError
from outrider.simulation.looks.opengl import drawing_remedy

try:
    import mujoco as mujoco
except (RuntimeError, AttributeError) as error:  # an unknown platform, or a library that lacks one
    raise ConfigError(
        f"MUJOCO_GL={os.environ.get('MUJOCO_GL')} cannot be used ({error}): {drawing_remedy()}"
    ) from error
