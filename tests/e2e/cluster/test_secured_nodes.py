"""Three nodes with TLS between them, logins at every address and an authorizer: each node does for a client what it asks.

Delegation tokens are made at one node and used at others; orders at REST come to the controller with the login that they
have; rights are those of the client, whichever node it asks.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import ZooKeeperServer
from bmq.rest_client.client import RestClient
from bmq.rest_client.login import RestLogin
from testing.cluster import ENVIRONMENT, BmqCluster, ClusterNode
from testing.java import CONSOLE_CONSUMER, CONSOLE_PRODUCER
from testing.processes import eventually
from tests.e2e.cluster.conftest import no_tracebacks
from tests.e2e.test_acls import assigned_topics
from tests.support.logged_in import LoggedIn, LoginRefused
from tests.support.node_pki import NodePki
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.campaign("cluster"), pytest.mark.bmq_only, pytest.mark.timeout(400)]

CREATE, RENEW, EXPIRE, DESCRIBE, CREATE_ACLS, METADATA = 38, 39, 40, 41, 30, 3
NOT_FOUND, OWNER_MISMATCH, NOT_ALLOWED, NOT_AUTHORIZED, LOGIN_FAILED = 62, 63, 64, 65, 58
TOPIC, GROUP, USER = 2, 3, 7
ALL, CREATE_TOKENS = 2, 13
PASSWORDS: Final = {"admin": "root-secret-1", "alice": "alice-secret-2", "bob": "bob-secret-3", "eve": "eve-secret-4"}
TOKEN_SECRET: Final = "token-secret-5"
SHOWN_WAIT_S: Final = 30.0
PARTITIONS: Final = 6


class Secured:
    """`cluster`, with user `admin` in super.users, topic `t` that alice may use, and bob, who may make tokens for alice."""

    def __init__(self, cluster: BmqCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.pki = NodePki(directory / "authority")
        self.context = ssl.create_default_context(cafile=str(self.pki.ca_file))
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self.tokens_file = directory / "tokens.json"
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        jaas = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        for user, password in PASSWORDS.items():
            self.write(f"{user}.password", password)
        admin = base64.b64encode(f"admin:{PASSWORDS['admin']}".encode()).decode()
        for node in cluster.nodes.values():
            shown = str(self.pki.node(f"node-{node.node_id}"))
            node.process.environment |= self._settings(shown, jaas)
            node.rest_context, node.rest_headers = self.context, {"Authorization": f"Basic {admin}"}

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def _settings(self, shown: str, jaas: str) -> dict[str, str]:
        kafka = {
            **json.loads(ENVIRONMENT["BMQ_KAFKA"]),
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.location": shown,
            "listener.name.plaintext.plain.sasl.jaas.config": jaas,
            "listener.name.rest.plain.sasl.jaas.config": jaas,
            "listener.name.rest.ssl.keystore.location": shown,
            "delegation.token.secret.key": TOKEN_SECRET,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }
        return {
            "BMQ_KAFKA": json.dumps(kafka),
            "BMQ_REST_SECURITY__PROTOCOL": "https",
            "BMQ_REST_SECURITY__LOGINS": "basic",
            "BMQ_INTERNODE_SECURITY__MODE": "tls",
            "BMQ_INTERNODE_SECURITY__CERTIFICATE_FILE": shown,
            "BMQ_INTERNODE_SECURITY__CA_FILE": str(self.pki.ca_file),
        }

    def logged_in(self, node: ClusterNode, user: str) -> LoggedIn:
        return LoggedIn(node.kafka_port, self.context).plain(user, PASSWORDS[user])

    def by_token(self, node: ClusterNode, token_id: str, mac: str) -> LoggedIn:
        """Raises LoginRefused."""
        return LoggedIn(node.kafka_port, self.context).by_token(token_id, mac)

    def librdkafka(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.cluster.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "ssl.ca.location": str(self.pki.ca_file),
        }

    def rest_login(self, user: str) -> RestLogin:
        ca_file = str(self.pki.ca_file)
        return RestLogin(ca_file=ca_file, user=user, password_file=str(self.directory / f"{user}.password"))

    def others(self, node: ClusterNode) -> list[ClusterNode]:
        return [one for one in self.cluster.nodes.values() if one is not node]


def acl(principal: str, kind: int, name: str, operation: int) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": principal,
        "host": "*",
        "operation": operation,
        "permission_type": 3,
    }


@pytest.fixture(scope="module")
def running(
    hdfs: HdfsCluster, zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    cluster = BmqCluster(directory / "cluster", hdfs.url, str(zookeeper.address), "secured")
    for _ in range(3):
        cluster.add()
    secured = Secured(cluster, directory)
    try:
        cluster.start()
        admin = AdminClient({**secured.librdkafka("admin"), "log_level": 0})
        admin.create_topics([NewTopic("t", PARTITIONS, 3)])["t"].result(timeout=SHOWN_WAIT_S)
        with secured.logged_in(cluster.node(1), "admin") as client:
            entries = [
                acl("User:alice", TOPIC, "t", ALL),
                acl("User:alice", GROUP, "*", ALL),
                acl("User:bob", USER, "User:alice", CREATE_TOKENS),
            ]
            made = client.call(CREATE_ACLS, 3, creations=entries)
        assert [one["error_code"] for one in made["results"]] == [0, 0, 0]
        cluster.wait_settled()
        yield secured
    finally:
        cluster.close()
    logged = "".join(node.process.log_file.read_text() for node in cluster.nodes.values())
    assert [secret for secret in (TOKEN_SECRET, *PASSWORDS.values()) if secret in logged] == []


@pytest.fixture
def secured(running: Secured) -> Iterator[Secured]:
    with no_tracebacks(running.cluster):
        yield running
    running.cluster.heal()


def create(client: LoggedIn, *, owner: str | None = None, renewers: tuple[str, ...] = ()) -> Mapping[str, Any]:
    return client.call(
        CREATE,
        3,
        owner_principal_type=owner and "User",
        owner_principal_name=owner,
        renewers=[{"principal_type": "User", "principal_name": one} for one in renewers],
        max_lifetime_ms=-1,
    )


def shown_at(secured: Secured, node: ClusterNode, user: str) -> dict[str, Mapping[str, Any]]:
    with secured.logged_in(node, user) as client:
        return {one["token_id"]: one for one in client.call(DESCRIBE, 3, owners=None)["tokens"]}


def login_refusal(secured: Secured, node: ClusterNode, token_id: str, mac: str) -> int:
    """0: it logs in."""
    try:
        with secured.by_token(node, token_id, mac):
            return 0
    except LoginRefused as refused:
        return refused.code


def test_a_token_of_one_node_logs_in_at_all_until_it_is_expired_at_another(secured: Secured) -> None:
    for maker in secured.cluster.nodes.values():
        with secured.logged_in(maker, "alice") as alice:
            made = create(alice, renewers=("bob",))
        assert made["error_code"] == 0
        token_id, mac = made["token_id"], base64.b64encode(made["hmac"]).decode()
        assert login_refusal(secured, maker, token_id, mac) == 0, "at the node that made it, at once"
        for node in secured.cluster.nodes.values():
            eventually(lambda: token_id in shown_at(secured, node, "bob"), SHOWN_WAIT_S, f"{node} shows it")  # noqa: B023
            shown = shown_at(secured, node, "bob")[token_id]
            assert shown["principal_name"] == shown["token_requester_principal_name"] == "alice"
            assert [one["principal_name"] for one in shown["renewers"]] == ["bob"]
            assert base64.b64encode(shown["hmac"]).decode() == mac
            assert token_id not in shown_at(secured, node, "eve")
            with secured.by_token(node, token_id, mac) as by_token:
                (topic,) = by_token.call(METADATA, 12, topics=[{"topic_id": None, "name": "t"}])["topics"]
                assert (topic["error_code"], len(topic["partitions"])) == (0, PARTITIONS)
                assert create(by_token)["error_code"] == NOT_ALLOWED
                for change in (RENEW, EXPIRE):
                    period = {"renew_period_ms": -1, "expiry_time_period_ms": -1}
                    assert by_token.call(change, 2, hmac=made["hmac"], **period)["error_code"] == NOT_ALLOWED
        other, third = secured.others(maker)
        with secured.logged_in(other, "bob") as bob:
            renewed = bob.call(RENEW, 2, hmac=made["hmac"], renew_period_ms=60_000)
            assert renewed["error_code"] == 0
        eventually(
            lambda: shown_at(secured, third, "alice")[token_id]["expiry_timestamp"] == renewed["expiry_timestamp_ms"],  # noqa: B023
            SHOWN_WAIT_S,
            "the renewal is seen",
        )
        for stranger in ("eve", "admin"):
            with secured.logged_in(other, stranger) as client:
                answers = [
                    client.call(RENEW, 2, hmac=made["hmac"], renew_period_ms=-1),
                    client.call(EXPIRE, 2, hmac=made["hmac"], expiry_time_period_ms=-1),
                ]
            assert [one["error_code"] for one in answers] == [OWNER_MISMATCH] * 2
        with secured.logged_in(third, "alice") as alice:
            assert alice.call(EXPIRE, 2, hmac=made["hmac"], expiry_time_period_ms=-1)["error_code"] == 0
            assert alice.call(EXPIRE, 2, hmac=made["hmac"], expiry_time_period_ms=-1)["error_code"] == NOT_FOUND
        for node in secured.cluster.nodes.values():
            eventually(
                lambda: login_refusal(secured, node, token_id, mac) == LOGIN_FAILED,  # noqa: B023
                SHOWN_WAIT_S,
                f"{node} refuses it",
            )


def test_who_asks_is_who_logged_in_at_every_node(secured: Secured) -> None:
    """A node that does not have the controller says for whom it asks."""
    for node in secured.cluster.nodes.values():
        with secured.logged_in(node, "eve") as eve:
            assert create(eve, owner="alice")["error_code"] == NOT_AUTHORIZED
            refused = eve.call(CREATE_ACLS, 3, creations=[acl("User:eve", TOPIC, "t", ALL)])
            assert [one["error_code"] for one in refused["results"]] == [31]
        with secured.logged_in(node, "bob") as bob:
            made = create(bob, owner="alice")
        assert made["error_code"] == 0
        assert (made["principal_name"], made["token_requester_principal_name"]) == ("alice", "bob")
        eventually(lambda: made["token_id"] in shown_at(secured, node, "alice"), SHOWN_WAIT_S, "its owner sees it")  # noqa: B023


def test_tokens_outlive_the_controller(secured: Secured) -> None:
    controller = secured.cluster.controller()
    with secured.logged_in(controller, "alice") as alice:
        made = create(alice, renewers=("bob",))
    token_id, mac = made["token_id"], base64.b64encode(made["hmac"]).decode()
    others = secured.others(controller)
    for node in others:
        eventually(lambda: login_refusal(secured, node, token_id, mac) == 0, SHOWN_WAIT_S, f"{node} knows it")  # noqa: B023
    controller.kill()
    for node in others:
        assert login_refusal(secured, node, token_id, mac) == 0
        with secured.logged_in(node, "bob") as bob:
            assert bob.call(RENEW, 2, hmac=made["hmac"], renew_period_ms=-1)["error_code"] == 0
    controller.start()
    eventually(lambda: login_refusal(secured, controller, token_id, mac) == 0, SHOWN_WAIT_S, "the new process knows it")


def test_javas_clients_use_all_nodes_by_one_token(secured: Secured) -> None:
    made_at = secured.others(secured.cluster.controller())[0]
    with secured.logged_in(made_at, "alice") as alice:
        made = create(alice)
    mac = base64.b64encode(made["hmac"]).decode()
    config = secured.write(
        "token.properties",
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={secured.pki.ca_file}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{made["token_id"]}" password="{mac}" tokenauth="true";\n',
    )
    assert len(set(secured.cluster.owners_of("t"))) == len(secured.cluster.nodes)
    where = ("--bootstrap-server", secured.cluster.bootstrap, "--topic", "t", "--command-config", str(config))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    sent = sorted(f"record {number}" for number in range(60))
    for node in secured.cluster.nodes.values():
        eventually(lambda: login_refusal(secured, node, made["token_id"], mac) == 0, SHOWN_WAIT_S, "known")  # noqa: B023
    run_tool(CONSOLE_PRODUCER, *where, *keyed, stdin="".join(f"{one}:{one}\n" for one in sent))
    limits = ("--from-beginning", "--max-messages", str(len(sent)), "--timeout-ms", "30000")
    done = run_tool(CONSOLE_CONSUMER, *where, *limits, "--group", "by-token")
    assert sorted(done.out.splitlines()) == sent


def test_rest_sends_an_order_to_the_controller_and_its_client_logs_in_there(secured: Secured) -> None:
    for node in secured.cluster.nodes.values():
        assert_orders_come_through(secured, node)
    gone = secured.cluster.controller()
    gone.kill()
    for node in secured.others(gone):
        eventually(
            lambda: controller_seen_by(node) not in (gone.node_id, None, -1),  # noqa: B023
            SHOWN_WAIT_S,
            f"{node} knows the next one",
        )
        assert_orders_come_through(secured, node)


def controller_seen_by(node: ClusterNode) -> int | None:
    """None while it cannot say."""
    status, seen = node.get("/v1/cluster")
    return seen["controller_id"] if status == 200 else None


def assert_orders_come_through(secured: Secured, node: ClusterNode) -> None:
    """From this node on, for who may; and nothing for who may not."""
    controller = secured.cluster.controller()
    url = f"https://{node.rest}"
    for user, status, sentence in (
        ("admin", 200, ""),
        ("alice", 403, "User:alice has no right to ALTER on the cluster"),
        ("", 401, "log in"),
    ):
        login = secured.rest_login(user) if user else RestLogin(ca_file=str(secured.pki.ca_file))
        client = RestClient(url, login, timeout=SHOWN_WAIT_S)
        try:
            answer = client.request("POST", "/v1/rebalance", params={"dry_run": "true"})
        finally:
            client.close()
        assert (answer.status_code, sentence in answer.text) == (status, True), (node, user, answer.text)
        if user == "admin":
            assert answer.request.url.netloc.decode() == controller.rest
        if not user:
            assert answer.request.url.netloc.decode() == node.rest, "who is not known is sent nowhere"
    wrong = secured.write("wrong.password", "wrong")
    stranger = RestLogin(ca_file=str(secured.pki.ca_file), user="admin", password_file=str(wrong))
    client = RestClient(url, stranger, timeout=SHOWN_WAIT_S)
    try:
        assert client.request("POST", "/v1/rebalance").status_code == 401
    finally:
        client.close()


def test_a_regular_expression_matches_what_its_member_may_describe(running: Secured) -> None:
    """Whichever node coordinates the group, and whichever the member is connected to."""
    admin = AdminClient({**running.librdkafka("admin"), "log_level": 0})
    admin.create_topics([NewTopic("theirs", 1, 3)])["theirs"].result(timeout=SHOWN_WAIT_S)
    for _ in range(4):
        login = running.librdkafka("alice")
        assert assigned_topics(login.pop("bootstrap.servers"), "^t.*", **login) == {"t"}
