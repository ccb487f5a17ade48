"""The console's switches over DDS: a page, the console node, and a navigator with an emulated link."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest
from conftest import Client, NodeThread, wait_until
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from fakes import WORDS, ScriptedDecoder
from support.consoles import Page
from support.toys import own_text, request, toy_pair
from support_ros import EdgeNavigator

from outrider.core.values import Decoded
from outrider.decoding.config import DecodingConfig
from outrider.decoding.drivers.linked_decoder import LinkedDecoder
from outrider.nodes.common import qos
from outrider.nodes.navigator.switches import NOT_EMULATED
from outrider.nodes.observers.console_node import ConsoleNode
from outrider.runtime.common.links import LOOPBACK, emulation_of, named_networks
from outrider.runtime.common.ports import free_port
from outrider.runtime.wiring.decoders import connect_decoder
from outrider.runtime.wiring.robot_pair import Edge
from outrider.runtime.wiring.verifier import open_verifier

pytestmark = pytest.mark.ros
TARGET, DRAFT = toy_pair(3, 0.7, eos_bias=-9.0)
Start = Callable[..., Page]


@dataclass
class Emulated:
    """A navigator's edge over an emulated link to a verifier that is up."""

    edge: Edge
    decoder: LinkedDecoder


@pytest.fixture
def emulated() -> Iterator[Emulated]:
    endpoint, stop = f"tcp://127.0.0.1:{free_port()}", threading.Event()
    with closing(open_verifier(TARGET, endpoint)) as verifier:
        serving = threading.Thread(target=verifier.serve, args=(stop,))
        serving.start()
        emulation = emulation_of(LOOPBACK)
        decoder = connect_decoder(endpoint, DRAFT, DecodingConfig(), emulation=emulation)
        yield Emulated(Edge(decoder, WORDS, emulation), decoder)
        stop.set()
        serving.join()


@pytest.fixture
def start(run_node: Callable[..., NodeThread]) -> Iterator[Start]:
    pages: list[Page] = []

    def start_(edge: Edge, **parameters: object) -> Page:
        run_node(lambda: EdgeNavigator(parameters, edge), threads=4)
        console = run_node(lambda: ConsoleNode({"port": 0})).node
        pages.append(Page(console._console))
        if not pages[-1].welcome["switches"]["strategy"]:
            pages[-1].read("switches", strategy="outrider")
        pages[-1].seated()
        return pages[-1]

    yield start_
    for page in pages:
        page.socket.close()


def test_a_driver_switches_link_and_strategy_of_a_running_navigator(start: Start, emulated: Emulated) -> None:
    page = start(emulated.edge, link_profile=LOOPBACK)
    page.send(do="switch", link="satellite")
    told = page.read("switches", link="satellite")
    assert told["links"] == list(named_networks()) and told["rtt_ms"] == 580.0
    page.send(do="switch", rtt_ms=30.0)
    assert page.read("switches", rtt_ms=30.0)["link"] == "satellite at 30 ms"
    page.send(do="switch", strategy="ar")
    page.read("switches", strategy="ar")
    asked = request(max_new_tokens=24)
    decoded = emulated.decoder.decode(asked)
    assert decoded.token_ids == own_text(TARGET, asked) and emulated.decoder.strategy == "ar"
    assert decoded.elapsed_s >= 0.03


def test_a_switch_under_a_text_changes_no_token(start: Start, emulated: Emulated) -> None:
    page = start(emulated.edge, link_profile=LOOPBACK)
    page.send(do="switch", link="satellite")
    page.read("switches", link="satellite")
    asked, ended = request(max_new_tokens=80, deadline_s=120.0), list[Decoded]()
    begun = threading.Event()
    text = threading.Thread(
        target=lambda: ended.append(emulated.decoder.decode(asked, lambda verified: begun.set()))
    )
    text.start()
    assert begun.wait(60.0)
    for link in ("lan", "lte", "blackout", "loopback"):
        page.send(do="switch", link=link)
        page.read("switches", link=link)
    text.join(60.0)
    assert ended and ended[0].token_ids == own_text(TARGET, asked)


@pytest.mark.parametrize(
    ("asked", "reason"), [({"link": "lan"}, "not emulated"), ({"strategy": "sd"}, "no decoding engine")]
)
def test_what_a_navigator_cannot_switch_is_refused_by_name(
    start: Start, asked: dict[str, str], reason: str
) -> None:
    page = start(Edge(ScriptedDecoder([]), WORDS))
    page.send(do="switch", **asked)
    assert reason in page.read("notice", level="warning")["text"]


def test_a_second_verifier_keeps_to_strategies_that_draw_the_same_text(
    start: Start, emulated: Emulated
) -> None:
    page = start(emulated.edge, link_profile=LOOPBACK, second_endpoint="tcp://127.0.0.1:9", temperature=0.7)
    page.send(do="switch", strategy="sd")
    assert "a second verifier draws another text" in page.read("notice", level="warning")["text"]


def test_the_parameters_themselves_are_refused_where_they_would_not_hold(
    run_node: Callable[..., NodeThread], emulated: Emulated
) -> None:
    from rclpy.parameter import Parameter

    node = run_node(lambda: EdgeNavigator({"link_profile": LOOPBACK}, emulated.edge), threads=4).node
    network = emulated.edge.emulation.network
    refused = {
        "link_profile": ("telegraph", "there is no link"),
        "link_rtt_ms": (0.5, "from 1 to 600 ms"),
        "strategy": ("magic", "must be one of"),
    }
    for name, (value, reason) in refused.items():
        (result,) = node.set_parameters([Parameter(name, value=value)])
        assert not result.successful and reason in result.reason
    (result,) = node.set_parameters([Parameter("link_profile", value="")])
    assert result.reason == NOT_EMULATED
    both = [Parameter("link_profile", value="lte"), Parameter("strategy", value="magic")]
    assert not node.set_parameters_atomically(both).successful
    assert emulated.edge.emulation.network is network, "all or nothing"
    wait_until(lambda: node.value("strategy") == "outrider", "the strategy of before")


@pytest.mark.parametrize("round_trip", ["far", "nan", ""])
def test_diagnostics_of_another_program_under_the_navigators_name_end_no_page(
    run_node: Callable[..., NodeThread], client: Client, round_trip: str
) -> None:
    console = run_node(lambda: ConsoleNode({"port": 0})).node
    page = Page(console._console)
    for value, link in ((round_trip, "theirs"), ("20.0", "ours")):
        values = {"emulated": link, "round_trip_ms": value, "strategy": "ar"}
        pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
        status = DiagnosticStatus(name="outrider/navigator", values=pairs)
        client.publish(DiagnosticArray(status=[status]), "/diagnostics", qos.EVENTS)
    assert page.read("switches", strategy="ar")["link"] == "ours"
    page.socket.close()
