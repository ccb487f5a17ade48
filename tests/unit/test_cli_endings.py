"""How a command ends when the system refuses a path, closes a stream, or asks it to end."""

import errno
import fcntl
import os
import subprocess
import sys
import termios

import pytest

from outrider import cli
from outrider.core.files.private_files import NO_ROOM
from outrider.core.files.writing import writing_to


@pytest.mark.parametrize("number", sorted(cli.UNUSABLE), ids=errno.errorcode.get)
def test_a_path_that_the_system_refuses_is_an_error_without_a_trace(number, monkeypatch, capsys):
    def fail() -> None:
        raise OSError(number, os.strerror(number), "/locked/run.mcap")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ending:
        cli.main()
    told = capsys.readouterr().err
    assert ending.value.code == 1 and told.count("\n") == 1
    assert told.startswith(f"error: /locked/run.mcap: {os.strerror(number)}: ")


@pytest.mark.parametrize(
    "error", [PermissionError(1, "no such right"), OSError(9, "bad descriptor", "x"), BlockingIOError()]
)
def test_an_error_of_the_system_without_a_path_or_advice_is_a_defect(error, monkeypatch):
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(type(error)):
        cli.main()


@pytest.mark.parametrize("number", NO_ROOM)
def test_a_disk_without_room_is_a_failure_and_no_wrong_usage(number, monkeypatch, capsys, tmp_path):
    def fail() -> None:
        with writing_to(tmp_path / "film.mp4"):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == cli.FAILED and "film.mp4" in (said := capsys.readouterr().err)
    assert "make room" in said


def test_a_current_folder_that_is_gone_is_said(tmp_path):
    (tmp_path / "gone").mkdir()
    ending = 'cd "$0" && rmdir "$0" && exec "$1" -m outrider words'
    command = ["sh", "-c", ending, str(tmp_path / "gone"), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("error: the current folder is gone")
    assert "Traceback" not in done.stderr


@pytest.mark.lengthy
def test_nobody_is_asked_where_standard_input_is_closed():
    command = ["sh", "-c", 'exec "$0" -m outrider plan "turnn left" <&-', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "did you mean" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.lengthy
def test_an_agent_without_standard_input_is_told_so():
    pytest.importorskip("mcp")
    command = ["sh", "-c", 'exec "$0" -m outrider mcp <&-', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "is closed" in done.stderr and "Traceback" not in done.stderr


ENDED = """
import os, signal, sys, tempfile, time, typer
from outrider import cli
command = leaf = typer.main.get_command(cli.app)
for word in sys.argv[1:]:
    leaf = leaf.commands[word]
def work(**_):
    with tempfile.TemporaryDirectory(dir="."):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20.0)
leaf.callback = work
command(sys.argv[1:])
"""
"""A command that makes a temporary folder and gets a SIGTERM."""


@pytest.mark.lengthy
@pytest.mark.parametrize("words", ["bench relay", "bench idle", "eval agents", "doctor"])
def test_a_command_that_is_told_to_end_cleans_up_as_at_an_interrupt(words, tmp_path):
    command = [sys.executable, "-c", ENDED, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 130 and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


REPEATED = """
import atexit, contextlib, os, signal, sys, time
from outrider import __main__, cli
from outrider.runtime.common.ending_signals import REPEATED_S, interrupted_by_signals
first, second, place = getattr(signal, sys.argv[1]), getattr(signal, sys.argv[2]), sys.argv[3]
def repeat():
    if place == "late":
        time.sleep(REPEATED_S)
    os.kill(os.getpid(), second)
    if place == "hanging":
        time.sleep(30.0)
    open("closed", "x").close()
@contextlib.contextmanager
def resource():
    try:
        yield
    finally:
        if place == "while closing":
            repeat()
def app():
    with interrupted_by_signals(), resource():
        if place != "hanging":
            os.kill(os.getpid(), first)
if place != "while closing":
    atexit.register(repeat)
cli.app = app
__main__.main()
"""
"""A command that gets a second signal while it closes its resources or exits, or late.

"hanging": its only signal, in an exit that hangs.
"""


@pytest.mark.parametrize("place", ["while closing", "while exiting"])
@pytest.mark.parametrize(("first", "second"), [("SIGINT", "SIGINT"), ("SIGTERM", "SIGHUP")])
def test_a_repeated_signal_neither_disturbs_an_end_nor_leaves_a_trace(first, second, place, tmp_path):
    command = [sys.executable, "-c", REPEATED, first, second, place]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "") and (tmp_path / "closed").exists()


@pytest.mark.lengthy
@pytest.mark.parametrize("place", ["late", "hanging"])
def test_a_later_or_only_signal_ends_an_exit_that_hangs(place, tmp_path):
    command = [sys.executable, "-c", REPEATED, "SIGINT", "SIGINT", place]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "") and not (tmp_path / "closed").exists()


UNREAD_PIPE = """
import io, os, signal, sys, threading
from outrider.nodes.common.process_exit import Ending
from outrider.runtime.common.ending_signals import exit_on_signals
def fill(descriptor):
    os.set_blocking(descriptor, False)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except BlockingIOError:
        os.set_blocking(descriptor, True)
class Pipe(io.FileIO):
    def write(self, content):
        is_writing.set()
        return super().write(content)
is_writing = threading.Event()
"""
"""Fills a pipe that nobody reads, and notices a write to it, within which the file's lock is held."""

EXIT = """
fill(1)
sys.stdout = io.TextIOWrapper(io.BufferedWriter(Pipe(1, "w", closefd=False)))
writer = threading.Thread(target=print, args=("results",), kwargs={"flush": True})
writer.start()
is_writing.wait()
exit_on_signals()
signal.raise_signal(signal.SIGINT)
writer.join()
"""
FAILURE = """
ending = Ending()
fill(2)
threading.Thread(target=lambda: 1 / 0, daemon=True).start()
print(ending.requested.wait(30.0), flush=True)
os._exit(ending.status)
"""


@pytest.mark.lengthy
def test_a_signal_ends_an_exit_that_waits_for_output_that_nobody_reads():
    process = subprocess.Popen([sys.executable, "-c", UNREAD_PIPE + EXIT], stdout=subprocess.PIPE)
    try:
        assert process.wait(60.0) == 130
    finally:
        process.kill()
        process.communicate()


def test_a_failed_thread_requests_the_end_though_nobody_reads_its_trace():
    command = [sys.executable, "-c", UNREAD_PIPE + FAILURE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.wait(60.0) == 1 and process.stdout.read() == b"True\n"
    finally:
        process.kill()
        process.communicate()


TRANSLATED = """
import os, signal
from outrider import cli
from outrider.runtime.common.ending_signals import interrupted_by_signals
def app():
    with interrupted_by_signals():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("argument 1: KeyboardInterrupt") from None
cli.app = app
cli.main()
"""
"""A library, such as ctypes, that turns an interrupt of its callback into another exception."""


def test_an_interrupt_that_a_library_has_made_another_exception_of_is_one():
    done = subprocess.run([sys.executable, "-c", TRANSLATED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130 and "Traceback" not in done.stderr


UNREAD = """
import sys, threading
from pathlib import Path
from outrider.core.files.terminal import make_console, say
from outrider.runtime.common.ending_signals import stopping_on_signals
stopping = threading.Event()
with stopping_on_signals(stopping):
    say("ready")
    sys.stdin.readline()
    {says}
    assert stopping.wait(60.0)
    say("to nobody")
    Path("report.json").write_text("whole")
"""
"""Writes its report after its output was closed."""


@pytest.mark.parametrize(
    "says", ["say('more')", "make_console().print('more')", "make_console(True).print('x')"]
)
def test_what_is_read_no_more_ends_in_order_and_leaves_its_report(says, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", UNREAD.format(says=says)],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait(60.0) == 0 and (tmp_path / "report.json").read_text() == "whole"


LOST = """
import threading
from pathlib import Path
from outrider.runtime.common.ending_signals import stopping_on_signals, wait_for_ending
stopping = threading.Event()
with stopping_on_signals(stopping):
    print("ready", flush=True)
    wait_for_ending(stopping)
    print("to nobody", flush=True)
    Path("report.json").write_text("whole")
"""
"""Writes its report after it was asked to end."""


def test_what_loses_its_terminal_leaves_its_report(tmp_path):
    ours, its = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", LOST],
        cwd=tmp_path,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(its)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        assert terminal.readline() == b"ready\r\n"
    assert process.wait(60.0) == 0 and (tmp_path / "report.json").read_text() == "whole"


UNINTERRUPTED = """
import os, signal, threading
from outrider.runtime.common.ending_signals import stopping_on_signals, wait_for_ending
event, waits = threading.Event(), threading.Event()
def send():
    waits.wait()
    os.kill(os.getpid(), signal.SIGTERM)
with stopping_on_signals(event):
    threading.Thread(target=send).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    waits.set()
    wait_for_ending(event)
"""
"""Another thread takes the signal: it does not interrupt the wait, as if it had come just before it."""


def test_a_signal_that_does_not_interrupt_the_wait_for_it_ends_it_all_the_same():
    assert subprocess.run([sys.executable, "-c", UNINTERRUPTED], timeout=60).returncode == 0


WITHIN_WAIT = """
import contextlib, signal, sys, threading
{setup}
def trace(frame, what, _):
    if frame.f_code is threading.Condition.wait.__code__:
        sys.settrace(None)
        signal.raise_signal(signal.SIGTERM)
with context:
    sys.settrace(trace)
    print(event.wait(60.0), flush=True)
"""
"""Sends the signal where `Event.wait` holds the lock of the event."""


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "setup",
    [
        "from outrider.runtime.common.ending_signals import stopping_on_signals\n"
        "event = threading.Event(); context = stopping_on_signals(event)",
        "from outrider.nodes.common.process_exit import Ending\n"
        "event = Ending().requested; context = contextlib.nullcontext()",
        "from outrider.runtime.wiring.decoders import _begin_process\n"
        "event, loaded = _begin_process(); loaded.set(); context = contextlib.nullcontext()",
    ],
    ids=["context", "node", "verifier"],
)
def test_a_signal_within_the_wait_for_it_ends_the_wait(setup):
    code = WITHIN_WAIT.format(setup=setup)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "True\n", ended.stderr
