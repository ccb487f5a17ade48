# SPDX-License-Identifier: Apache-2.0
"""All viewers of one robot: who drives, and what everybody sees. Lives on one event loop; needs no socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from outrider.console import messages as m
from outrider.console.commands import NOT_STARTED, PERSON_FIRST, Command, Commands, Switching
from outrider.console.drawing.floor import CELL_M
from outrider.console.drawing.frames import picture_frame
from outrider.console.drawing.pictures import Pictures, sentence_to_go
from outrider.console.event_history import EventHistory
from outrider.console.limits import ConsoleLimits
from outrider.console.notes import Note, note_nothing, noted_of
from outrider.console.robot import GoalEnd, RobotPort
from outrider.console.seat import Beats, ManualDrive, Seat, velocity_of
from outrider.console.sentences.turns import Turns
from outrider.console.viewer import Names, Viewer, Viewers
from outrider.core.sensors.camera import CameraModel
from outrider.core.values import Pose2D, RangeScan

STALE_S = 0.5
"""A driver without a state newer than this (in seconds) would drive blind, and is refused."""
STATE_PERIOD_S = 0.1
MAX_VIEWERS, MAX_AGENTS = 32, 4
_AT_ONCE = m.Ping, m.Seen, m.Say, m.GoTo, m.GoToSeen  # sentences queue by themselves
NO_FLOOR = "no floor is known there: point at the floor, nearer to the robot"


class Hub:
    """Connects viewers to the robot; everything runs on the event loop. What viewers may do:

    - emergency stop and cancel: everybody, always;
    - drive, command, switch, release the emergency stop: the driver, a person who has taken the seat;
    - command: an agent too. It takes a free seat until a person does; its command ends when it leaves.
    """

    def __init__(
        self, robot: RobotPort, note: Note = note_nothing, limits: ConsoleLimits = ConsoleLimits()
    ) -> None:
        self._robot, self._note = robot, note
        self._viewers = Viewers(self._welcome)
        self._broadcast = self._viewers.broadcast
        self._names, self._seat, self._state = Names(), Seat(), m.State()
        self._beats, self._stop_beat, self._stopping = Beats(time.monotonic), 0, False
        self._manual_drive = ManualDrive(robot.drive, limits.hold_s)
        self._commands = Commands(robot, self._on_start, self._on_end, self._on_drop, limits.cancel_s)
        self._turns = Turns(self._cancel, self._command, self._warn, limits.read_s)
        self.close = self._turns.close
        self._history, self._pictures = EventHistory(), Pictures()
        self._switching = Switching(robot, self._drives, self._note, self._refuse_switch)
        self._picture, self._boxed = 0, False
        self._handlers: dict[type, Callable[[Viewer, Any], object]] = {
            m.Drive: self._drive,
            m.Seen: lambda viewer, message: viewer.mailbox.on_seen(message.picture),
            m.Ping: lambda viewer, message: viewer.mailbox.put(m.write(m.Pong(message.sent_ms))),
            m.Say: lambda viewer, message: self._turns.say(viewer, message.text),
            m.GoTo: lambda viewer, message: self._turns.say(viewer, sentence_to_go(message.x, message.y)),
            m.GoToSeen: self._go_to_pointed_at,
            m.Switch: lambda viewer, wish: self._switching.request(viewer, wish, self._history.switches),
            m.Take: lambda viewer, message: self._take(viewer),
            m.Leave: self._leave,
            m.EStop: self._release_e_stop,
        }

    @property
    def num_viewers(self) -> int:
        """The number of connected viewers."""
        return len(self._viewers)

    async def run(self) -> None:
        """Send the state periodically, and check that the driver is there, forever."""
        while True:
            await asyncio.sleep(STATE_PERIOD_S)
            self._check_driver()
            if self._stopping and self._state.stands and not self._state.goal:
                self._stopping = False
                self._broadcast(m.Halt(stands=True))
            if self._viewers:
                self._broadcast_state()

    def _check_driver(self) -> None:
        """Take the seat from a driver that has fallen silent; end the command if that is an agent."""
        driver = next((viewer for viewer in self._viewers.values() if viewer.name == self._seat.driver), None)
        if self._seat.check(time.monotonic()):
            self._manual_drive.release()
            if driver is not None:
                self._end_with(driver)

    # Events of the robot.

    def update(self, **fields: Any) -> None:
        """Update fields of the state; send changes that concern safety at once, others periodically."""
        before, self._state = self._state, msgspec.structs.replace(self._state, **fields)
        if self._state.e_stop and not before.e_stop:
            self._stop_beat = before.beat
        urgent = ("e_stop", "moving", "stands")
        if any(getattr(before, name) != getattr(self._state, name) for name in urgent):
            self._broadcast_state()

    def show(self, event: m.ToPage) -> None:
        """Send an event to all viewers, and keep it for those who join later."""
        for who, did, what in noted_of(event):
            self._note(who, did, what)
        update = self._history.add(event)
        if isinstance(update, m.Text):
            self._viewers.broadcast_text(update)
        elif update is not None:
            self._broadcast(update)

    def show_picture(self, jpeg: bytes) -> None:
        """Send a picture to all viewers, packed once; its boxes go before it."""
        self._picture += 1
        frame = picture_frame(self._picture, jpeg)
        pose = Pose2D(*self._state.pose) if self._state.pose is not None else None
        boxes = self._pictures.take(self._picture, pose, self._history.placed())
        told = m.write(m.Boxes(self._picture, boxes)) if boxes or self._boxed else ""
        self._boxed = bool(boxes)
        for viewer in self._viewers.values():
            if told:
                viewer.mailbox.put_latest("boxes", told)
            viewer.mailbox.put_picture(self._picture, frame)

    def set_camera_model(self, lens: CameraModel | None) -> None:
        """Set the camera of all pictures from now on; None if it is unknown."""
        self._pictures.lens = lens

    def show_pose(self, pose: Pose2D) -> None:
        """Shows the robot's pose, and extends its trail."""
        self.update(pose=(round(pose.x, 3), round(pose.y, 3), round(pose.yaw, 3)))
        points = self._history.floor.go(pose)
        if points:
            self._broadcast(m.Trail(points))

    def show_scan(self, pose: Pose2D, scan: RangeScan) -> None:
        """Adds the walls of a range scan to the map."""
        cells = self._history.floor.see(pose, scan)
        if cells:
            self._broadcast(m.Walls(CELL_M, cells))

    def _broadcast_state(self) -> None:
        self._state = msgspec.structs.replace(
            self._state, beat=self._state.beat + 1, viewers=len(self._viewers), **self._seat.state_fields
        )
        self._beats.on_sent(self._state.beat)
        self._viewers.broadcast_latest("state", self._state_for)

    def _state_for(self, viewer: Viewer) -> m.State:
        command = self._commands.running
        return msgspec.structs.replace(self._state, goal=command.text_for(viewer) if command else "")

    # Viewers join and leave.

    def has_room(self, hello: m.Hello) -> bool:
        """Whether this viewer may join: a person who was here may always return; agents are limited."""
        if hello.agent and sum(viewer.is_agent for viewer in self._viewers.values()) >= MAX_AGENTS:
            return False
        return self._names.knows(hello.resume) or len(self._viewers) < MAX_VIEWERS

    def join(self, hello: m.Hello) -> Viewer:
        """Return a new viewer, or one that resumes under its old name, in place of its older connection."""
        viewer = self._names.viewer(hello, self._viewers)
        replaced = self._viewers.get(viewer.secret)
        self._viewers[viewer.secret] = viewer
        if replaced is not None:
            replaced.mailbox.close()
        viewer.mailbox.put_first(m.write(self._welcome(viewer)))
        self._broadcast_state()
        return viewer

    def remove_viewer(self, viewer: Viewer) -> None:
        """Remove a viewer. A driver's motion stops at once; a person keeps the seat for a moment."""
        self._turns.remove_viewer(viewer)
        if self._viewers.get(viewer.secret) is not viewer:
            return
        del self._viewers[viewer.secret]
        if self._seat.driver == viewer.name:
            self._manual_drive.release()
        if viewer.is_agent:
            self._seat.leave(viewer.name)
        self._end_with(viewer)
        self._broadcast_state()

    def _end_with(self, viewer: Viewer) -> None:
        """Cancel the command of an agent that has gone; a person's command continues."""
        if viewer.is_agent and self._commands.has_from(viewer.secret):
            self._cancel(viewer)

    def _welcome(self, viewer: Viewer) -> m.Welcome:
        limits = self._robot.limits
        return m.Welcome(
            name=viewer.name,
            secret=viewer.secret,
            limits=(limits.vx, limits.vy, limits.wz),
            state=self._state_for(viewer),
            **self._history.welcome_fields(viewer.secret),
        )

    # Requests of viewers.

    def receive(self, viewer: Viewer, message: m.FromPage) -> None:
        """Act on a viewer's message, except speech.

        Stops act at once. Other messages wait until the viewer's earlier sentences have been read. Raises
        ProtocolError for a viewer that sends more messages than a page does.
        """
        if isinstance(message, m.EStop) and message.engaged:
            self.e_stop(viewer.name)
        elif isinstance(message, m.Cancel):
            self._cancel(viewer)
        elif m.lets_go(message):
            self._drive(viewer, message)
        viewer.pace.count(time.monotonic())
        self._check_driver()  # after a stall of this loop, a silent driver's old messages may still come
        self._seat.on_message(viewer.name, time.monotonic())
        if viewer.is_agent and m.is_for_persons(message):
            self._warn(viewer, "an agent says what to do in words: a person drives and releases the stop")
        elif isinstance(message, _AT_ONCE):
            self._handlers[type(message)](viewer, message)
        elif type(message) in self._handlers:
            self._turns.follow(viewer, partial(self._handlers[type(message)], viewer, message))

    def e_stop(self, who: str = "somebody") -> None:
        """Engage the emergency stop, and end all commands, so that none continues after a release."""
        delivered = self._robot.set_e_stop(True)
        if not self._state.e_stop:
            self._note(who, "e_stop", "" if delivered else "nobody listens")
        self._manual_drive.cancel_hold()
        self._turns.stop()
        self._commands.cancel()
        self._stop_beat = self._state.beat
        self.update(e_stop=True, unheard=not delivered)

    def _release_e_stop(self, viewer: Viewer, message: m.EStop) -> None:
        """Release the stop for the driver, who must have received a recent state sent after the stop."""
        if message.engaged or not self._drives(viewer, message):
            return
        if message.beat <= self._stop_beat or self._beats.age_s(message.beat) > STALE_S:
            self._warn(viewer, "the release came too late to be sure of it: release again")
            return
        self._robot.set_e_stop(False)
        self._note(viewer.name, "release_e_stop")
        self.update(e_stop=False, unheard=False)

    def _take(self, viewer: Viewer) -> bool:
        """Give the viewer the seat if it is free or an agent's; return whether the viewer has it, or warn."""
        before, yields = self._seat.driver, self._seat.yields
        if not self._seat.take(viewer.name, time.monotonic(), viewer.is_agent):
            self._warn(viewer, f"{before} has the driver's seat: wait until it is free")
            return False
        if before != viewer.name:
            if yields:
                self._cancel(viewer)
            self._note(viewer.name, "take")
            self._broadcast_state()
        return True

    def _drives(self, viewer: Viewer, request: m.Gated) -> bool:
        """Whether the viewer has the seat. An agent takes a free seat; a person is asked to take it first."""
        if viewer.is_agent or self._seat.driver == viewer.name:
            return self._take(viewer)
        if self._seat.driver and not self._seat.yields:
            self._warn(viewer, f"{self._seat.driver} has the driver's seat")
        elif viewer.is_to_sit(request, time.monotonic()):
            self._note(viewer.name, "refused", "the driver's seat is not taken")
        return False

    def _drive(self, viewer: Viewer, message: m.Drive) -> None:
        if m.lets_go(message):
            if self._seat.driver == viewer.name:
                self._manual_drive.release()
            return
        if not self._drives(viewer, message):
            return
        if self._state.e_stop:
            self._warn(viewer, "the emergency stop is engaged: release it first")
        elif self._beats.age_s(message.beat) > STALE_S:
            self._manual_drive.release()
            self._warn(viewer, "the link to your browser is too slow to drive by")
        else:
            shares = message.forward, message.left, message.turn
            if self._manual_drive.drive(velocity_of(self._robot.limits, *shares)):
                self._note(viewer.name, "drive")

    def _command(self, viewer: Viewer, text: str) -> bool:
        if viewer.is_agent and self._commands.is_by_person:  # who may have left the seat
            self._warn(viewer, PERSON_FIRST)
        elif self._drives(viewer, m.Say(text)):
            self._note(viewer.name, "say", said=text)
            self._commands.submit(Command(viewer.secret, text, viewer.is_agent))
            return True
        return False

    def _go_to_pointed_at(self, viewer: Viewer, message: m.GoToSeen) -> None:
        """Turn pointing into a sentence, so that it passes the same checks as any command."""
        if sentence := self._pictures.sentence(message.picture, message.across, message.down):
            self._turns.say(viewer, sentence)
        else:
            self._warn(viewer, NO_FLOOR)

    def _refuse_switch(self, viewer: Viewer, reason: str) -> None:
        if reason:
            self._warn(viewer, reason)
        viewer.mailbox.put(m.write(self._history.switches))

    def _leave(self, viewer: Viewer, message: m.Leave) -> None:
        if self._seat.leave(viewer.name):
            self._manual_drive.release()
            self._note(viewer.name, "leave")
            self._broadcast_state()

    def _cancel(self, viewer: Viewer) -> None:
        self._manual_drive.release()
        self._turns.stop()
        if (cancelled := self._commands.cancel()) is not None:
            self._note(viewer.name, "cancel", said=cancelled.text)
        if not self._stopping:
            self._stopping = True
            self._broadcast(m.Halt())

    def _on_start(self, command: Command | None) -> None:
        self.update(goal=command.text if command else "")
        if command is not None:
            self._stopping = False
            self._broadcast_goal(command, "running")

    def _on_end(self, command: Command, end: GoalEnd) -> None:
        state = "done" if end.success else "failed"
        self._history.end(command, end)
        self._note("navigator", state, said=command.text)
        self._broadcast_goal(command, state, end.message)

    def _on_drop(self, command: Command) -> None:
        sender = self._viewers.get(command.secret)
        if sender is not None:
            self._viewers.put(sender, command.goal_for(sender, "failed", NOT_STARTED))

    def _broadcast_goal(self, command: Command, state: str, message: str = "") -> None:
        self._viewers.broadcast_each(lambda viewer: command.goal_for(viewer, state, message))

    def _warn(self, viewer: Viewer, text: str) -> None:
        if viewer.warn(text, time.monotonic()):
            self._note(viewer.name, "refused", text)
