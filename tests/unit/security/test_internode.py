"""Which mode holds between nodes, what is refused, and what proves that a peer is a node."""

from __future__ import annotations

import pytest

from bmq.security.handshake_failures import node_accept_failure, node_dial_failure
from bmq.security.internode import (
    InternodeMode,
    InternodeSecurity,
    WrongInternodeSecurity,
    is_loopback,
    why_no_node,
)

pytestmark = pytest.mark.unit

AUTO, PLAINTEXT, MIXED, TLS = InternodeMode
HERE, BEYOND = "127.0.0.1:9093", "10.0.0.1:9093"
FILES = {"certificate_file": "node.pem", "ca_file": "ca.pem"}
NODE = {"subjectAltName": (("DNS", "n"), ("URI", "urn:bmq:node:n"))}
CLIENT = {"subjectAltName": (("DNS", "n"),)}


@pytest.mark.parametrize(
    ("set_to", "addresses", "mode"),
    [
        (InternodeSecurity(), (HERE, ""), PLAINTEXT),
        (InternodeSecurity(), ("[::1]:9093", "localhost:9093"), PLAINTEXT),
        (InternodeSecurity(mode=PLAINTEXT), (BEYOND, ""), PLAINTEXT),
        (InternodeSecurity(mode=PLAINTEXT), (HERE, ""), PLAINTEXT),
        (InternodeSecurity(**FILES), (BEYOND, ""), TLS),  # type: ignore[arg-type]
        (InternodeSecurity(**FILES), (HERE, ""), TLS),  # type: ignore[arg-type]
        (InternodeSecurity(mode=TLS, **FILES), (BEYOND, ""), TLS),
        (InternodeSecurity(mode=MIXED, **FILES), (BEYOND, ""), MIXED),
    ],
)
def test_the_mode_in_force(set_to: InternodeSecurity, addresses: tuple[str, ...], mode: InternodeMode) -> None:
    assert set_to.mode_at(addresses) is mode


@pytest.mark.parametrize("addresses", [(BEYOND, ""), ("0.0.0.0:9093", BEYOND), (HERE, BEYOND), ("a.example:9093", "")])
def test_nodes_beyond_loopback_are_not_open_without_a_word(addresses: tuple[str, ...]) -> None:
    with pytest.raises(WrongInternodeSecurity, match=r"mode = plaintext if the network is closed"):
        InternodeSecurity().mode_at(addresses)


@pytest.mark.parametrize(
    ("set_to", "why"),
    [
        (InternodeSecurity(mode=TLS), "needs internode_security.certificate_file"),
        (InternodeSecurity(mode=MIXED, certificate_file="a"), "needs internode_security.ca_file"),
        (InternodeSecurity(certificate_file="a"), "needs internode_security.ca_file"),
        (InternodeSecurity(ca_file="a"), "needs internode_security.certificate_file"),
        (InternodeSecurity(mode=PLAINTEXT, ca_file="a"), "names files for TLS, but"),
    ],
)
def test_half_set_is_refused(set_to: InternodeSecurity, why: str) -> None:
    with pytest.raises(WrongInternodeSecurity, match=why):
        set_to.mode_at((HERE, ""))


def test_which_addresses_only_this_machine_reaches() -> None:
    here = ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "::1:1", "localhost:1"]
    assert [is_loopback(one) for one in here] == [True] * len(here)
    beyond = ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example:1", "node:1"]
    assert [is_loopback(one) for one in beyond] == [False] * len(beyond)


def test_what_proves_a_node() -> None:
    for allows_plaintext in (True, False):
        assert why_no_node(NODE, allows_plaintext=allows_plaintext) == ""
        assert "is of no node" in why_no_node(CLIENT, allows_plaintext=allows_plaintext)
    assert why_no_node(None, allows_plaintext=True) == ""
    assert "showed no certificate" in why_no_node(None, allows_plaintext=False)
    assert "showed no certificate" in why_no_node({}, allows_plaintext=False)


@pytest.mark.parametrize(
    ("reason", "verify_message", "accepted", "dialled"),
    [
        ("WRONG_VERSION_NUMBER", "", "it does not speak TLS", "it does not speak TLS"),
        ("CERTIFICATE_VERIFY_FAILED", "certificate has expired", "issue it anew", "issue it anew"),
        ("CERTIFICATE_VERIFY_FAILED", "certificate is not yet valid", "the clocks", "the clocks"),
        ("CERTIFICATE_VERIFY_FAILED", "unsuitable certificate purpose", "is no node's", "is no node's"),
        ("CERTIFICATE_VERIFY_FAILED", "self-signed certificate", "internode_security.ca_file", "internode_security.ca"),
        ("CERTIFICATE_VERIFY_FAILED", "IP address mismatch, x.", "`--host`", "`--host`"),
        ("CERTIFICATE_VERIFY_FAILED", "", "it cannot be verified", "it cannot be verified"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "", "it showed no certificate", "peer did not return"),
        ("TLSV1_ALERT_UNKNOWN_CA", "", "ca_file there", "its log says why"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "", "tlsv13 alert", "its log says why"),
        (None, "", "no reason given", "no reason given"),
    ],
)
def test_a_failed_handshake_says_what_to_change(
    reason: str | None, verify_message: str, accepted: str, dialled: str
) -> None:
    assert accepted in node_accept_failure(reason, verify_message)
    assert dialled in node_dial_failure(reason, verify_message)
