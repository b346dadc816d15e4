"""What a listener demands: Kafka's names and numbers, and settings that cannot be served are refused."""

from __future__ import annotations

import pytest

from bmq.security.listener_security import ListenerSecurity, SecurityProtocol, require_served

pytestmark = pytest.mark.unit


def test_the_protocols_have_kafkas_numbers_and_say_what_they_demand() -> None:
    assert [(one.name, one.value, one.is_tls, one.is_sasl) for one in SecurityProtocol] == [
        ("PLAINTEXT", 0, False, False),
        ("SSL", 1, True, False),
        ("SASL_PLAINTEXT", 2, False, True),
        ("SASL_SSL", 3, True, True),
    ]


def test_a_session_is_limited_by_mechanism_or_for_all() -> None:
    security = ListenerSecurity(reauthentication_max_ms={"": 5_000, "PLAIN": 0})
    assert [security.session_max_ms(name) for name in ("PLAIN", "SCRAM-SHA-256")] == [0, 5_000]
    assert ListenerSecurity().session_max_ms("PLAIN") == 0


def test_passwords_are_not_printed() -> None:
    assert "hunter2" not in repr(ListenerSecurity(jaas_users={"alice": "hunter2"}))


def test_unknown_mechanisms_and_none_are_refused() -> None:
    assert require_served([" PLAIN ", "", "SCRAM-SHA-512"]) == {"PLAIN", "SCRAM-SHA-512"}
    with pytest.raises(ValueError, match="unknown SASL mechanisms: CRAM-MD5; known ones are GSSAPI, PLAIN"):
        require_served(["PLAIN", "CRAM-MD5"])
    with pytest.raises(ValueError, match=r"needs a mechanism: set sasl\.enabled\.mechanisms"):
        require_served([])
