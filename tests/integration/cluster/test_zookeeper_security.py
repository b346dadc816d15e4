"""The election in a real ZooKeeper by TLS, SASL and with closed nodes; and what is refused, in a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trustme
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from structlog.testing import capture_logs

from bmq.election.election import ElectionUnavailable
from bmq.election.zookeeper import ZooKeeperElection
from bmq.election.zookeeper_security import OPEN, ZooKeeperSecurity
from bmq.election.zookeeper_session_end import end_session
from bmq.election.zookeeper_wire import SessionKey
from testing.zookeeper import fresh_chroot, running_zookeeper
from tests.support.zookeeper_security import (
    OTHER_USER,
    PASSWORD,
    SecureZooKeeper,
    secret_file,
    secure_zookeeper,
)
from tests.unit.election.election_contract import CLUSTER_ID, member, until, within

pytestmark = [pytest.mark.contract, pytest.mark.timeout(120)]

REFUSED_S = 4.0
PATHS = ("", "/cluster_id", "/controller_epoch", "/nodes", "/nodes/1", "/controller")


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    """Takes anybody, and logs in those who ask for it."""
    made = secure_zookeeper(tmp_path_factory.mktemp("secure"))
    with running_zookeeper(made.server):
        yield made


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureZooKeeper]:
    """Takes only those who log in, and by TLS with a certificate of its authority."""
    made = secure_zookeeper(tmp_path_factory.mktemp("strict"), enforces_sasl=True, client_auth="need")
    with running_zookeeper(made.server):
        yield made


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    return fresh_chroot(request.node.name)


def election(address: str, node_id: int, security: ZooKeeperSecurity, wait_s: float = 15.0) -> ZooKeeperElection:
    return ZooKeeperElection(address, node_id=node_id, start_wait_s=wait_s, security=security)


async def reign(address: str, security: ZooKeeperSecurity) -> None:
    """Join, lead, leave; seen by a second process."""
    one, two = election(address, 1, security), election(address, 2, security)
    try:
        await one.start(CLUSTER_ID)
        await two.start(CLUSTER_ID)
        await one.join(member(1))
        claim = await within(one.campaign(member(1)))
        await until(lambda: two.leader == claim and 1 in two.members, "it is seen")
        await one.close()
        assert (await within(two.campaign(member(2)))).epoch == claim.epoch + 1
    finally:
        await one.close()
        await two.close()


async def refusal(address: str, security: ZooKeeperSecurity) -> str:
    refused = election(address, 3, security, REFUSED_S)
    with pytest.raises(ElectionUnavailable) as error:
        await refused.start(CLUSTER_ID)
    assert PASSWORD not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("acl", ["open", "auth"])
def test_an_election_by_sasl(secure: SecureZooKeeper, root: str, tls: bool, acl: str) -> None:
    changes = {"acl": acl} if tls else {"acl": acl, "tls": False, "ca_file": ""}
    address = secure.tls_address if tls else str(secure.server.address)
    asyncio.run(reign(address + root, secure.security(**changes)))


def test_an_election_where_everybody_has_to_log_in(strict: SecureZooKeeper, root: str) -> None:
    asyncio.run(reign(strict.tls_address + root, strict.security(**strict.client_files())))


def test_tls_without_sasl(secure: SecureZooKeeper, root: str) -> None:
    security = ZooKeeperSecurity(tls=True, ca_file=str(secure.directory / "ca.pem"))
    asyncio.run(reign(secure.tls_address + root, security))


def test_closed_nodes_are_for_our_user_alone(secure: SecureZooKeeper, root: str) -> None:
    """A cluster that was open is closed by the first process that says so, while others still live."""

    async def story() -> None:
        address = str(secure.server.address) + root
        plain = secure.security(acl="open", tls=False, ca_file="")
        old, new = election(address, 1, plain), election(address, 2, secure.security(tls=False, ca_file=""))
        try:
            await old.start(CLUSTER_ID)
            await old.join(member(1))
            claim = await within(old.campaign(member(1)))
            assert touched(address) == len(PATHS)
            with capture_logs() as logs:
                await new.start(CLUSTER_ID)
            assert {line["path"] for line in logs if line["event"] == "zookeeper_node_closed"} >= {
                root,
                f"{root}/nodes",
            }
            assert touched(address) == 0
            assert touched(address, {"mechanism": "DIGEST-MD5", "username": OTHER_USER, "password": "other"}) == 0
            await old.resign(claim)
            assert (await within(new.campaign(member(2)))).epoch == claim.epoch + 1
        finally:
            await old.close()
            await new.close()

    def touched(address: str, sasl: dict[str, str] | None = None) -> int:
        """How many nodes a stranger changes. The chroot itself is a node as well."""
        server, _, chroot = address.partition("/")
        guest = KazooClient(hosts=server, sasl_options=sasl)
        guest.start()
        try:
            count = 0
            for path in PATHS:
                with suppress(NoAuthError):
                    data, stat = guest.get(f"/{chroot}{path}")
                    guest.set(f"/{chroot}{path}", data, stat.version)
                    count += 1
            return count
        finally:
            guest.stop()
            guest.close()

    asyncio.run(story())


def test_a_wrong_login_is_refused_in_a_sentence(secure: SecureZooKeeper, root: str) -> None:
    wrong = secret_file(secure.directory / "wrong", "wrong")
    security = secure.security(password_file=str(wrong))
    said = asyncio.run(refusal(secure.tls_address + root, security))
    assert "login is not accepted" in said and "password_file" in said


def test_a_login_is_tried_again_when_the_password_is_right(secure: SecureZooKeeper, root: str) -> None:
    """The file is read at each new client of the session: nothing has to be restarted."""
    file = secret_file(secure.directory / "changing", PASSWORD)
    security = secure.security(password_file=str(file))

    async def story() -> None:
        one = election(secure.tls_address + root, 1, security)
        await one.start(CLUSTER_ID)
        try:
            secret_file(file, "wrong")
            await one._session._end_client(0.0)
            with capture_logs() as logs:
                one._session.open()
                await until(lambda: any(line["event"] == "zookeeper_session_lost" for line in logs), "it is refused")
            secret_file(file, PASSWORD)
            await one.raise_epoch(5)
        finally:
            await one.close()

    asyncio.run(story())


def test_without_a_login_a_strict_server_says_no(strict: SecureZooKeeper, root: str) -> None:
    security = ZooKeeperSecurity(tls=True, ca_file=str(strict.directory / "ca.pem"), **strict.client_files())  # type: ignore[arg-type]
    assert "ZooKeeper" in asyncio.run(refusal(strict.tls_address + root, security))


def test_wrong_certificates(secure: SecureZooKeeper, strict: SecureZooKeeper, root: str) -> None:
    stranger = trustme.CA()
    stranger.cert_pem.write_to_path(secure.directory / "stranger.pem")
    by_stranger = secure.security(ca_file=str(secure.directory / "stranger.pem"))
    assert "certificate is not accepted" in asyncio.run(refusal(secure.tls_address + root, by_stranger))
    assert asyncio.run(refusal(strict.tls_address + root, strict.security()))
    foreign = strict.security(**strict.client_files(stranger, "foreign"))
    assert asyncio.run(refusal(strict.tls_address + root, foreign))


def test_tls_to_a_plain_port_and_the_other_way_round(secure: SecureZooKeeper, root: str) -> None:
    assert "TLS" in asyncio.run(refusal(str(secure.server.address) + root, secure.security()))
    plain = secure.security(tls=False, ca_file="")
    assert "gives no session" in asyncio.run(refusal(secure.tls_address + root, plain))


def test_the_session_of_a_dead_process_ends_by_tls(secure: SecureZooKeeper, root: str) -> None:
    keys: list[SessionKey] = []

    async def story() -> None:
        security = secure.security()
        one = ZooKeeperElection(secure.tls_address + root, node_id=1, security=security, on_session=keys.append)
        await one.start(CLUSTER_ID)
        assert await asyncio.to_thread(end_session, [secure.tls_address], keys[0], 10.0, security)
        await one.close()
        with pytest.raises(ElectionUnavailable):
            await asyncio.to_thread(end_session, [secure.tls_address], keys[0], 0.5, OPEN)

    asyncio.run(story())


def test_certificates_are_read_at_each_connection(secure: SecureZooKeeper, root: str, tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authorities)
    security = secure.security(ca_file=str(authorities))

    async def story() -> None:
        one = election(secure.tls_address + root, 1, security)
        starting = asyncio.ensure_future(one.start(CLUSTER_ID))
        await until(lambda: "certificate" in one._session.trouble, "it is refused")
        fresh = tmp_path / "fresh.pem"
        secure.authority.cert_pem.write_to_path(fresh)
        fresh.replace(authorities)
        await within(starting)  # type: ignore[arg-type]
        await one.close()

    asyncio.run(story())
