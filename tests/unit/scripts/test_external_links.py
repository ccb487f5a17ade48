"""The documents link only to web pages on one list, which `make links` requests."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "external_links.py"
spec = importlib.util.spec_from_file_location("external_links", SCRIPT)
assert spec is not None and spec.loader is not None
external_links = importlib.util.module_from_spec(spec)
spec.loader.exec_module(external_links)


class Pages(BaseHTTPRequestHandler):
    """Serves one page."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/there" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_documents_link_to_what_the_list_names_and_to_nothing_else() -> None:
    assert external_links.links_of(external_links.documents()) == set(external_links.EXTERNAL)


def test_pages_that_are_not_there_and_servers_that_do_not_answer_are_named(
    web: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = "http://127.0.0.1:9/"
    assert external_links.main((f"{web}/there", f"{web}/gone", nobody)) == 1
    told = capsys.readouterr()
    assert told.out == "1 of 3 links lead to a page\n"
    assert [line.split(": ")[0] for line in told.err.splitlines()] == [f"{web}/gone", nobody]


def test_links_that_all_lead_somewhere_are_no_failure(web: str) -> None:
    assert external_links.main((f"{web}/there",)) == 0
