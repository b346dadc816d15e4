"""What a listener demands, from settings; nothing half set is served, and no sentence has a secret."""

from __future__ import annotations

import pytest

from bmq.security.listener_security import ListenerSecurity, SecurityProtocol
from bmq.security.listeners import listeners_of
from bmq.security.sasl.jaas import PLAIN_MODULE
from bmq.server.listener_settings import is_secret, without_listener_configs

pytestmark = pytest.mark.unit

SASL = {"listener.security.protocol.map": "OTHER:SSL, PLAINTEXT:SASL_PLAINTEXT"}
JAAS = "listener.name.plaintext.plain.sasl.jaas.config"
GSSAPI = {
    **SASL,
    "sasl.enabled.mechanisms": "GSSAPI",
    "bmq.sasl.kerberos.principal": "kafka/localhost@BMQ.TEST",
    "bmq.sasl.kerberos.keytab": "/etc/kafka.keytab",
}
LINE = f'{PLAIN_MODULE} required user_admin="hunter2";'


def listener_security(kafka: dict[str, str]) -> ListenerSecurity:
    """Of the only listener."""
    (found,) = listeners_of(kafka, ("127.0.0.1", 9092), None)
    return found.security


def test_nothing_set_demands_nothing() -> None:
    assert listener_security({}) == ListenerSecurity()
    assert listener_security({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}) == ListenerSecurity()


def test_all_of_it() -> None:
    found = listener_security(
        {
            **SASL,
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-512",
            "connections.max.reauth.ms": "60000",
            "listener.name.plaintext.plain.connections.max.reauth.ms": "5000",
            JAAS: LINE,
        }
    )
    assert (found.name, found.protocol) == ("PLAINTEXT", SecurityProtocol.SASL_PLAINTEXT)
    assert found.mechanisms == {"PLAIN", "SCRAM-SHA-512"}
    assert (found.session_max_ms("PLAIN"), found.session_max_ms("SCRAM-SHA-512")) == (5_000, 60_000)
    assert found.jaas_users == {"admin": "hunter2"} and "hunter2" not in repr(found)


def test_a_listener_may_have_a_kerberos_service_of_its_own() -> None:
    service = listener_security({**GSSAPI, "sasl.kerberos.service.name": "kafka"}).kerberos
    assert service is not None
    assert (service.principal, service.keytab) == ("kafka/localhost@BMQ.TEST", "/etc/kafka.keytab")
    own = {
        "listener.name.plaintext.bmq.sasl.kerberos.keytab": "/etc/own.keytab",
        "listener.name.plaintext.gssapi.bmq.sasl.kerberos.principal": "bmq/localhost",
        "listener.name.plaintext.sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](.*)s/@.*//",
    }
    service = listener_security(GSSAPI | own).kerberos
    assert service is not None and (service.principal, service.keytab) == ("bmq/localhost", "/etc/own.keytab")
    assert service.rules.short_name("bob@OTHER.TEST", "BMQ.TEST") == "bob"
    assert listener_security(GSSAPI | {"sasl.enabled.mechanisms": "PLAIN"}).kerberos is None


@pytest.mark.parametrize(
    ("kafka", "why"),
    [
        ({"listener.security.protocol.map": "PLAINTEXT:SASL"}, "which is not NAME:PROTOCOL"),
        (SASL, r"needs a mechanism: set sasl\.enabled\.mechanisms"),
        ({**SASL, "sasl.enabled.mechanisms": "PLAIN,CRAM-MD5"}, "unknown SASL mechanisms: CRAM-MD5"),
        (GSSAPI | {"bmq.sasl.kerberos.keytab": ""}, "GSSAPI needs bmq.sasl.kerberos.principal and"),
        (GSSAPI | {"bmq.sasl.kerberos.principal": " "}, "GSSAPI needs bmq.sasl.kerberos.principal and"),
        (GSSAPI | {"bmq.sasl.kerberos.principal": "kafka@BMQ.TEST"}, "is not NAME/HOST@REALM"),
        (GSSAPI | {"bmq.sasl.kerberos.principal": "kafka/@BMQ.TEST"}, "is not NAME/HOST@REALM"),
        (GSSAPI | {"bmq.sasl.kerberos.principal": "kafka/a/b@BMQ.TEST"}, "is not NAME/HOST@REALM"),
        (GSSAPI | {"sasl.kerberos.service.name": "bmq"}, "principal begins with kafka"),
        (GSSAPI | {"sasl.kerberos.principal.to.local.rules": "RULE:[1:$2]"}, r"names \$2, and has \$0 to \$1"),
        ({"bmq.sasl.kerberos.keytab": "/k"}, "protect nothing: no listener has SASL"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "protect nothing: no listener has SASL"),
        ({JAAS: LINE}, "protect nothing: no listener has SASL"),
        ({**SASL, "sasl.enabled.mechanisms": "SCRAM-SHA-256", JAAS: LINE}, "only PLAIN has users"),
        ({**SASL, "sasl.enabled.mechanisms": "PLAIN", JAAS: LINE[:-1]}, "does not end with a semicolon"),
        ({**SASL, "sasl.enabled.mechanisms": "PLAIN", "connections.max.reauth.ms": "soon"}, "has to be milliseconds"),
        ({"listener.name.other.ssl.keystore.key": "hunter2"}, "of a listener OTHER, which there is not"),
    ],
)
def test_what_cannot_be_served_is_refused(kafka: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        listener_security(kafka)
    assert "hunter2" not in str(refused.value)


def test_a_listeners_own_configs_are_apart_from_the_brokers() -> None:
    assert without_listener_configs({JAAS: LINE, "num.partitions": "3"}) == {"num.partitions": "3"}


def test_which_settings_are_secret() -> None:
    assert is_secret(f"kafka.{JAAS}") and is_secret("kafka.delegation.token.secret.key")
    assert not is_secret("kafka.sasl.enabled.mechanisms")
