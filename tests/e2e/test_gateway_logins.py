"""Users of the gateway are the cluster's: their logins are checked there, and their ACLs count. The gateway has TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest
import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from testing.servers import BmqServer
from tests.support.gateway import Gateway, Subscriber, basic, generated, running_gateway

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180), pytest.mark.bmq_only]

ROOT_PASSWORD, PASSWORD, WRONG = "root-secret-1", "alice-secret-2", "wrong-secret-3"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="{ROOT_PASSWORD}";'
WAIT_S = 30.0
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


class Secured(NamedTuple):
    """A gateway with TLS before a server with logins and ACLs, and stubs of a channel to it."""

    gateway: Gateway
    messages: Any
    stubs: Any
    channel: grpc.Channel


def prepare(server: BmqServer) -> None:
    """Users alice, who may use the topic `open` and all groups, and bob, who may do nothing."""
    admin = AdminClient(
        {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": ROOT_PASSWORD,
        }
    )
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users = [UserScramCredentialUpsertion(user, info, PASSWORD.encode()) for user in ("alice", "bob")]
    for made in admin.alter_user_scram_credentials(users).values():
        made.result(WAIT_S)
    for made in admin.create_topics([NewTopic("open", 1, 1), NewTopic("closed", 1, 1)]).values():
        made.result(WAIT_S)
    acls = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW
        )
        for kind, name in ((ResourceType.TOPIC, "open"), (ResourceType.GROUP, "*"))
    ]
    for acl in admin.create_acls(acls).values():
        acl.result(WAIT_S)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    server = BmqServer(directory / "data", {"BMQ_KAFKA": json.dumps(SETTINGS)})
    server.start()
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(directory / "tls.key")
    (directory / "tls.pem").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    settings = {
        "BMQ_GATEWAY_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "BMQ_GATEWAY_TLS_CERTIFICATE": str(directory / "tls.pem"),
        "BMQ_GATEWAY_TLS_KEY": str(directory / "tls.key"),
        "BMQ_GATEWAY_LOG_LEVEL": "debug",
        "BMQ_GATEWAY_FAILED_LOGIN_MS": "600000",
    }
    try:
        prepare(server)
        with running_gateway(server, directory / "gateway", settings) as gateway:
            messages, stubs = generated(directory)
            credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
            with grpc.secure_channel(gateway.address, credentials) as channel:
                yield Secured(gateway, messages, stubs, channel)
    finally:
        server.close()


def publish(secured: Secured, topic: str, metadata: Any) -> Any:
    messages = secured.messages
    request = messages.PublishRequest(topic=topic, records=[messages.Record(value=b"x")])
    return secured.stubs.PublisherStub(secured.channel).Publish(request, metadata=metadata, timeout=WAIT_S)


def refusal(secured: Secured, topic: str, metadata: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as failed:
        publish(secured, topic, metadata)
    return failed.value.code().name, failed.value.details()


def test_the_cluster_decides_who_logs_in_and_what_is_allowed(secured: Secured) -> None:
    assert publish(secured, "open", basic("alice", PASSWORD)).offsets[0] >= 0
    for metadata, sentence in (
        (None, "this cluster needs a login"),
        (basic("alice", WRONG), "the cluster refuses this login"),
        (basic("alice", WRONG), "the cluster refused this login a moment ago"),
        (basic("nobody", PASSWORD), "the cluster refuses this login"),
        ((("authorization", "Bearer x.y.z"),), "the cluster refuses this login"),
        ((("authorization", "Basic !"),), "the authorization is no base64"),
    ):
        code, said = refusal(secured, "open", metadata)
        assert (code, sentence in said) == ("UNAUTHENTICATED", True), said
    for user, topic in (("alice", "closed"), ("bob", "open")):
        code, said = refusal(secured, topic, basic(user, PASSWORD))
        assert (code, "uthorization" in said) == ("PERMISSION_DENIED", True), said


def test_groups_of_a_user_with_a_login(secured: Secured) -> None:
    """The gateway logs in by itself for share groups, and librdkafka for the others."""
    messages, stub = secured.messages, secured.stubs.SubscriberStub(secured.channel)
    alice, bob = basic("alice", PASSWORD), basic("bob", PASSWORD)
    kinds = (messages.GROUP_KIND_SHARE, messages.GROUP_KIND_CONSUMER)
    for kind in kinds:
        one = Subscriber(stub, messages, alice, topics=["open"], group=f"kind-{kind}", group_kind=kind, credit=5)
        one.started()
        publish(secured, "open", alice)
        (record,) = one.take(1)
        one.acknowledge([record.delivery_id])
        one.wait_settled(1)
        assert one.settled == [record.delivery_id]
        one.close()
        refused = Subscriber(stub, messages, bob, topics=["open"], group=f"kind-{kind}", group_kind=kind, credit=5)
        assert refused.failure().code().name == "PERMISSION_DENIED"
        refused.half_close()


def test_no_secret_is_in_the_log(secured: Secured) -> None:
    publish(secured, "open", basic("alice", PASSWORD))
    assert not any(secret in secured.gateway.log for secret in (ROOT_PASSWORD, PASSWORD, WRONG))


def test_a_certificate_that_cannot_be_used_is_one_sentence(secured: Secured, tmp_path: Path) -> None:
    gateway = Gateway(
        _Nowhere(),
        tmp_path / "wrong",
        {"BMQ_GATEWAY_TLS_CERTIFICATE": str(tmp_path / "none.pem"), "BMQ_GATEWAY_TLS_KEY": "x"},
    )
    gateway.process.start()
    assert gateway.process.wait(WAIT_S) == 1
    assert gateway.log.strip().splitlines()[-1].startswith("bmq: ")
    assert "cannot be read" in gateway.log


class _Nowhere:
    bootstrap = "127.0.0.1:1"
