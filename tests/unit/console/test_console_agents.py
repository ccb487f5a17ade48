"""An agent among the console's viewers: it gives commands, does not drive by hand, and yields to persons."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from support.consoles import FakeRobot, Page, wait_until

from outrider.console.commands import NOT_STARTED, PERSON_FIRST, TEXT_OF_ANOTHER
from outrider.console.hub import MAX_AGENTS
from outrider.console.robot import GoalEnd
from outrider.console.server import BROKEN_AFTER_S, ConsoleServer, ConsoleSettings, listen


@pytest.fixture
def server(robot: FakeRobot) -> Iterator[ConsoleServer]:
    server = ConsoleServer(robot, ConsoleSettings(port=0))
    yield server
    server.close()


def agent(server: ConsoleServer, name: str = "planner") -> Page:
    return Page(server, agent=name)


def test_an_agent_commands_in_words_and_everybody_sees_who(server: ConsoleServer, robot: FakeRobot) -> None:
    page, program = Page(server), agent(server)
    program.send(do="say", text="turn left")
    page.read("state", driver=program.name, goal="turn left")
    assert program.name == "agent planner 2" and robot.goals[0][0] == "turn left"


def test_an_agent_moves_nothing_by_hand(server: ConsoleServer, robot: FakeRobot) -> None:
    program = agent(server)
    program.drive(forward=1.0)
    assert "in words" in program.read("notice")["text"]
    program.send(do="drive", forward=0.0, left=0.0, turn=1.0, beat=program.beat)
    program.send(do="e_stop", engaged=True)
    wait_until(lambda: robot.e_stops, "the stop")
    program.release_e_stop()
    program.send(do="ping", sent_ms=1.0)
    program.read("pong", sent_ms=1.0)
    assert robot.drives == [] and robot.e_stops == [True]


def test_a_person_has_an_agents_seat_for_the_asking(server: ConsoleServer, robot: FakeRobot) -> None:
    page, program = Page(server), agent(server)
    program.send(do="say", text="turn left")
    page.read("state", driver=program.name)
    page.seated()
    wait_until(lambda: robot.cancels, "the agent's command ends")
    program.send(do="say", text="turn left")
    assert "has the driver's seat" in program.read("notice")["text"]


def test_an_agent_takes_no_ones_seat(server: ConsoleServer, robot: FakeRobot) -> None:
    first, second = agent(server), agent(server, "other")
    first.send(do="say", text="turn left")
    second.read("state", driver=first.name)
    second.send(do="say", text="turn right")
    second.read("notice")
    assert [said for said, _ in robot.goals] == ["turn left"] and robot.cancels == 0


def test_the_command_of_an_agent_that_vanishes_ends(server: ConsoleServer, robot: FakeRobot) -> None:
    page, program = Page(server), agent(server)
    program.send(do="say", text="find the red chair")
    page.read("state", goal="find the red chair")
    program.vanish()
    wait_until(lambda: robot.cancels, "the command ends")


def test_a_command_that_is_not_the_vanished_agents_goes_on(server: ConsoleServer, robot: FakeRobot) -> None:
    page, program = Page(server).seated(), agent(server)
    page.send(do="say", text="find the red chair")
    page.read("state", goal="find the red chair")
    program.vanish()
    page.read("state", viewers=1)
    robot.goals[0][1](GoalEnd(True, ""))
    page.read("goal", state="done")
    assert robot.cancels == 0


def test_agents_leave_room_for_persons(server: ConsoleServer) -> None:
    pages = [agent(server) for _ in range(MAX_AGENTS)]
    with pytest.raises(Exception, match="too many viewers"):
        agent(server)
    assert Page(server).name and len(pages) == MAX_AGENTS


@pytest.mark.parametrize("name", ["a b", "x" * 33, "\x1b[31m", "агент", "viewer 1\n", "x\n", "\n"])
def test_an_agents_name_is_plain(server: ConsoleServer, name: str) -> None:
    with pytest.raises(Exception, match="not a message of this console"):
        agent(server, name)


@pytest.mark.lengthy
def test_the_command_of_an_agent_that_is_cut_off_without_a_word_ends(
    server: ConsoleServer, robot: FakeRobot
) -> None:
    """The connection stays open but no heartbeat comes, as after a network is cut."""
    page, program = Page(server), agent(server)
    program.send(do="say", text="find the red chair")
    page.read("state", driver=program.name, goal="find the red chair")
    page.read("state", driver="")
    wait_until(lambda: robot.cancels, "the command ends")
    assert program.socket.close_code is None


@pytest.mark.lengthy
def test_a_persons_command_goes_on_when_the_page_falls_silent(
    server: ConsoleServer, robot: FakeRobot
) -> None:
    watching, page = Page(server), Page(server).seated()
    page.send(do="say", text="find the red chair")
    watching.read("state", driver=page.name, goal=TEXT_OF_ANOTHER)
    watching.read("state", driver="")
    watching.read("state", goal=TEXT_OF_ANOTHER)
    assert robot.cancels == 0


def test_a_connection_whose_network_is_cut_is_soon_known_as_broken() -> None:
    """Checks the options of TCP, because a test must not cut the machine's network."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle_s, period_s, times = (
                accepted.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert idle_s + period_s * times == BROKEN_AFTER_S
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1000 * BROKEN_AFTER_S


SECRET = "4711-oleander"


def test_a_persons_words_are_sent_to_their_page_alone(server: ConsoleServer, robot: FakeRobot) -> None:
    watching, program, page = Page(server), agent(server), Page(server).seated()
    said = f"remember that my alarm code is {SECRET}"
    page.send(do="say", text=said)
    page.read("goal", state="running", instruction=said)
    late = [Page(server), agent(server, "late")]
    back = Page(server, resume=page.welcome["secret"])
    assert back.welcome["state"]["goal"] == said
    assert [one.welcome["state"]["goal"] for one in late] == [TEXT_OF_ANOTHER] * 2
    robot.goals[0][1](GoalEnd(True, f"kept: {SECRET}"))
    for other in (watching, program, *late):
        told = other.read_all("goal", state="done") + other.read_all("state", goal="")
        assert not any(SECRET in str(one) for one in told)
        assert [one["instruction"] for one in told if one["is"] == "goal"][-1] == TEXT_OF_ANOTHER
    back.read("goal", state="done", instruction=said, message=f"kept: {SECRET}")
    assert SECRET not in str([Page(server).welcome, agent(server, "new").welcome])


def test_an_agents_words_are_sent_to_persons_and_to_no_other_agent(
    server: ConsoleServer, robot: FakeRobot
) -> None:
    page, other, program = Page(server), agent(server, "other"), agent(server)
    program.send(do="say", text="turn left")
    page.read("goal", state="running", instruction="turn left")
    other.read("goal", state="running", instruction=TEXT_OF_ANOTHER)
    other.read("state", goal=TEXT_OF_ANOTHER)
    page.read("state", goal="turn left")


def test_a_command_dropped_before_it_begins_is_reported_as_not_started(
    server: ConsoleServer, robot: FakeRobot
) -> None:
    page = Page(server).seated()
    for said in ("turn left", "turn right", "turn around"):
        page.send(do="say", text=said)
    page.read("goal", state="failed", instruction="turn right", message=NOT_STARTED)
    page.send(do="cancel")
    page.read("goal", state="failed", instruction="turn around", message=NOT_STARTED)
    robot.goals[0][1](GoalEnd(False, "cancelled"))
    page.read("state", goal="")
    assert [said for said, _ in robot.goals] == ["turn left"]


def test_what_waits_of_an_agent_that_vanishes_never_begins(server: ConsoleServer, robot: FakeRobot) -> None:
    page, program = Page(server), agent(server)
    for said in ("find the red chair", "turn left"):
        program.send(do="say", text=said)
    wait_until(lambda: robot.cancels, "the second one waits")
    page.read("state", viewers=2, goal="find the red chair")
    program.vanish()
    page.read("state", viewers=1)
    robot.goals[0][1](GoalEnd(False, "cancelled"))
    page.read("goal", state="failed")
    page.read("state", goal="")
    assert [said for said, _ in robot.goals] == ["find the red chair"]


def test_an_agent_drops_no_command_of_a_person_that_waits(server: ConsoleServer, robot: FakeRobot) -> None:
    """The person's command waits for the end of another agent's, and the seat is free."""
    program, page, other = agent(server), Page(server), agent(server)
    program.send(do="take")
    program.read("state", driver=program.name)
    program.send(do="say", text="turn right")
    page.read("goal", state="running")
    page.seated().send(do="say", text="find the red chair")
    page.send(do="leave")
    page.read("state", driver="")
    other.send(do="say", text="turn left")
    assert other.read("notice")["text"] == PERSON_FIRST
    robot.goals[0][1](GoalEnd(False, "cancelled"))
    wait_until(lambda: len(robot.goals) == 2, "the person's turn")
    assert robot.goals[1][0] == "find the red chair"


@pytest.mark.parametrize("text", ["remember that the keys hang by the door", "turn left"])
def test_an_agent_ends_no_persons_plan_by_another_sentence(
    server: ConsoleServer, robot: FakeRobot, text: str
) -> None:
    """Even though the person has given back the seat. A stop is never refused."""
    page, program = Page(server).seated(), agent(server)
    page.send(do="say", text="find the red chair")
    page.read("goal", state="running")
    page.send(do="leave")
    page.read("state", driver="")
    program.send(do="say", text=text)
    assert program.read("notice")["text"] == PERSON_FIRST
    assert robot.cancels == 0 and page.read("state")["driver"] == ""
    program.send(do="cancel")
    wait_until(lambda: robot.cancels, "the end of the plan")
    robot.goals[0][1](GoalEnd(False, "cancelled"))
    page.read("state", goal="")
    program.send(do="say", text=text)
    wait_until(lambda: len(robot.goals) == 2, "the agent's turn")
