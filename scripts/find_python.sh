#!/bin/sh
# Prints the Python interpreter for the setup, or nothing if none fits. Argument: the environment's folder.
venv=${1:-.venv}
candidates="python3.12 python3.13 python3.11 python3.10 python3.14 python3"
for distro in "${ROS_DISTRO:-}" jazzy humble kilted lyrical; do
    [ -n "$distro" ] && [ -f "/opt/ros/$distro/setup.bash" ] && candidates="/usr/bin/python3"
done
# An existing environment keeps the Python that created it.
[ -x "$venv/bin/python" ] && base=$(sed -n 's/^executable = //p' "$venv/pyvenv.cfg") && candidates="$base $candidates"
for candidate in $candidates; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
        command -v "$candidate"
        exit 0
    fi
done
