"""A secured development cluster's files: made once, closed to others, and such that clients and servers take them."""

from __future__ import annotations

import ssl
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from bmq.cli.dev_secured import NotSecured, secured_files
from bmq.dev import certificates
from bmq.dev.secured import USERS, SecuredFiles
from bmq.election import zookeeper_security
from bmq.election.zookeeper_security import BadZooKeeperSecurity, NodeAccess, ZooKeeperSecurity
from bmq.rest_client.login import login_of
from bmq.security.listener_security import SecurityProtocol
from bmq.server.client_listeners import configured
from bmq.server.settings import Settings
from bmq.server.tls import fault_of, make_context, tls_files

pytestmark = pytest.mark.unit


@pytest.fixture
def files(tmp_path: Path) -> SecuredFiles:
    made = SecuredFiles.of(tmp_path / "cluster")
    made.make()
    return made


def test_others_of_the_machine_read_nothing(files: SecuredFiles) -> None:
    assert files.directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in files.directory.iterdir()} == {0o600}
    assert len({files.password(user) for user in USERS}) == len(USERS)


def test_servers_take_the_settings(files: SecuredFiles) -> None:
    settings = Settings(**tomllib.loads(files.settings()))
    (listener,) = configured(settings)
    assert listener.security.protocol is SecurityProtocol.SASL_SSL
    assert settings.rest_security.schemes() == {"basic"}
    for name in ("PLAINTEXT", "REST"):
        served = tls_files(settings.kafka, name, has_own_names=False)
        assert fault_of(served, make_context(served)) == ""


def test_nodes_log_in_to_zookeeper_and_close_their_nodes_there(files: SecuredFiles) -> None:
    security = Settings(**tomllib.loads(files.settings())).zookeeper_security
    security.check()
    options = security.sasl_options()
    assert options is not None and security.acl == NodeAccess.AUTH
    assert (options["mechanism"], options["username"]) == ("DIGEST-MD5", "bmq")
    (option,) = files.zookeeper_options
    jaas = Path(option.removeprefix("-Djava.security.auth.login.config=")).read_text()
    assert f'user_bmq="{options["password"]}";' in jaas and files.zookeeper_properties
    assert options["password"] not in files.settings() and options["password"] not in option


def test_a_cluster_of_an_earlier_release_goes_on_without(files: SecuredFiles) -> None:
    (files.directory / "zookeeper.jaas").unlink()
    assert Settings(**tomllib.loads(files.settings())).zookeeper_security == ZooKeeperSecurity()
    assert (files.zookeeper_options, files.zookeeper_properties) == ((), {})


def test_without_the_package_for_it_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_security, "find_spec", lambda _: None)
    made = SecuredFiles.of(tmp_path)
    with pytest.raises(BadZooKeeperSecurity, match="pip install"):
        made.make()
    assert not made.exist


def test_clients_accept_the_certificate_for_this_machines_address(files: SecuredFiles) -> None:
    settings = Settings(**tomllib.loads(files.settings()))
    server = make_context(tls_files(settings.kafka, "REST", has_own_names=False))
    client = files.login().context()
    assert client is not None
    for name, is_right in (("127.0.0.1", True), ("localhost", True), ("example.org", False)):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        one = client.wrap_bio(to_client, to_server, server_hostname=name)
        other = server.wrap_bio(to_server, to_client, server_side=True)
        with pytest.raises(ssl.SSLWantReadError):
            one.do_handshake()
        with pytest.raises(ssl.SSLWantReadError):
            other.do_handshake()
        if is_right:
            one.do_handshake()
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
                one.do_handshake()


def test_each_user_has_files_for_each_kind_of_client(files: SecuredFiles) -> None:
    for user in USERS:
        password = files.password(user)
        login = login_of({"config": str(files.directory / f"{user}.rest.toml")}, {})
        assert (login.user, login.password()) == (user, password)
        for kind in ("properties", "conf"):
            text = (files.directory / f"{user}.{kind}").read_text()
            assert text.startswith("security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n")
            assert password in text


def test_a_cluster_stays_as_it_was_made(tmp_path: Path) -> None:
    assert secured_files(tmp_path / "open", is_wanted=False, was_made=True) is None
    with pytest.raises(NotSecured, match="was made without --secure"):
        secured_files(tmp_path / "open", is_wanted=True, was_made=True)
    made = secured_files(tmp_path / "new", is_wanted=True, was_made=False)
    assert made is not None
    password = made.password("alice")
    again = secured_files(tmp_path / "new", is_wanted=False, was_made=True)
    assert again is not None
    assert again.password("alice") == password


def test_without_the_package_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> SimpleNamespace:
        raise certificates.NoCertificates("a secured cluster needs another package")

    monkeypatch.setattr("bmq.dev.secured.new_certificates", absent)
    with pytest.raises(certificates.NoCertificates):
        secured_files(tmp_path / "new", is_wanted=True, was_made=False)
    assert list(tmp_path.iterdir()) == []
