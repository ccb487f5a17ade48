"""Named networks, and networks from a file."""

from __future__ import annotations

import pytest

from outrider.core.errors import ConfigError
from outrider.runtime.common.links import load_network, named_networks

OWN = "lab: {source: a guess, rtt_ms: 10, up_mbps: 1, down_mbps: 2}\n"


def test_the_shipped_networks_are_ordered_as_one_expects():
    networks = named_networks()
    delays = [
        networks[name].uplink.delay_s for name in ("loopback", "lan", "wifi6", "5g", "lte", "satellite")
    ]
    assert delays == sorted(delays)
    assert networks["lte"].uplink.bytes_per_s < networks["lte"].downlink.bytes_per_s
    assert networks["blackout"].outages and not networks["lte"].outages


def test_a_network_name_takes_precedence_over_a_file_with_one_network(tmp_path, monkeypatch):
    assert load_network("lte") == named_networks()["lte"]
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    assert load_network(str(path)).uplink.delay_s == 0.005
    path.write_text(OWN + OWN.replace("lab", "field"))
    with pytest.raises(ConfigError, match="2 links"):
        load_network(str(path))


def test_the_error_for_an_unknown_network_lists_the_known_networks():
    with pytest.raises(ConfigError, match=r"no link 'lte2'.*loopback.*satellite"):
        load_network("lte2")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- 1", "object"),
        ("lab: {", "describes no link"),
        (OWN.replace("source: a guess, ", ""), "source"),
        (OWN.replace("rtt_ms: 10", "rtt_ms: -10"), "rtt_ms"),
        (OWN.replace("rtt_ms: 10", "rtt_ms: .nan"), "rtt_ms"),
        (OWN.replace("up_mbps: 1", "up_mbps: 0"), "up_mbps"),
        (OWN.replace("up_mbps: 1", "upload: 1"), "upload"),
        (OWN.replace("}", ", blackouts: [{start_s: 5, length_s: 9}], blackouts_repeat_s: 8}"), "repeat_s=8"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong_in_it(tmp_path, content, words):
    path = tmp_path / "own.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=words) as raised:
        load_network(str(path))
    assert "own.yaml" in str(raised.value)
