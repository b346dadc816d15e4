"""What cannot be used is refused before anything connects, in a sentence without a secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from bmq.election import zookeeper_security
from bmq.election.zookeeper_security import BadZooKeeperSecurity, NodeAccess, ZooKeeperSecurity

pytestmark = pytest.mark.unit

SECRET = "hunter2"


class Files:
    def __init__(self, directory: Path) -> None:
        authority = trustme.CA()
        issued = authority.issue_cert("localhost")
        self.directory = directory
        self.ca = self.of("ca.pem", authority.cert_pem.bytes(), 0o644)
        self.certificate = self.of("client.pem", issued.cert_chain_pems[0].bytes(), 0o644)
        self.key = self.of("client.key", issued.private_key_pem.bytes())
        self.other_key = self.of("other.key", authority.issue_cert("other").private_key_pem.bytes())
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        locked = serialization.BestAvailableEncryption(SECRET.encode())
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked
        self.locked_key = self.of("locked.key", key.private_bytes(*form))
        self.password = self.of("password", f"{SECRET}\nmore\n".encode())
        self.open_password = self.of("open", SECRET.encode(), 0o644)
        self.empty = self.of("empty", b"\n")
        self.latin1 = self.of("latin1", b"\xff\xfe")

    def of(self, name: str, data: bytes, mode: int = 0o600) -> str:
        path = self.directory / name
        path.write_bytes(data)
        path.chmod(mode)
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def sasl(files: Files, **changes: Any) -> ZooKeeperSecurity:
    values = {"sasl_mechanism": "DIGEST-MD5", "username": "bmq", "password_file": files.password, **changes}
    return ZooKeeperSecurity(**values)


def test_what_is_right(files: Files) -> None:
    ZooKeeperSecurity().check()
    assert ZooKeeperSecurity().sasl_options() is None
    security = sasl(files, acl=NodeAccess.AUTH)
    security.check()
    login = {"mechanism": "DIGEST-MD5", "service": "zookeeper", "username": "bmq", "password": SECRET}
    assert security.sasl_options() == login
    assert SECRET not in repr(security)
    ZooKeeperSecurity(tls=True).check()
    whole = {"tls": True, "ca_file": files.ca, "certificate_file": files.certificate}
    ZooKeeperSecurity(**whole, key_file=files.key).check()  # type: ignore[arg-type]
    ZooKeeperSecurity(**whole, key_file=files.locked_key, key_password_file=files.password).check()  # type: ignore[arg-type]


def test_a_replaced_password_counts(files: Files) -> None:
    security = sasl(files)
    files.of("password", b"fresh")
    options = security.sasl_options()
    assert options is not None and options["password"] == "fresh"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sasl_mechanism": "PLAIN"}, "'PLAIN' is not served: DIGEST-MD5 and GSSAPI are"),
        ({"sasl_mechanism": ""}, "need sasl_mechanism"),
        ({"username": ""}, "needs username and password_file"),
        ({"password_file": ""}, "needs username and password_file"),
        ({"password_file": "/nowhere/password"}, "cannot be read: No such file"),
        ({"password_file": "open_password"}, "open to every user"),
        ({"password_file": "empty"}, "begins with an empty line"),
        ({"password_file": "latin1"}, "not UTF-8"),
        ({"ca_file": "ca"}, "tls is false"),
        ({"tls": True, "ca_file": "password"}, "ca_file"),
        ({"tls": True, "ca_file": "/nowhere/ca.pem"}, "No such file"),
        ({"tls": True, "certificate_file": "certificate"}, "need each other"),
        ({"tls": True, "key_file": "key"}, "need each other"),
        ({"tls": True, "certificate_file": "certificate", "key_file": "other_key"}, "cannot be used together"),
        ({"tls": True, "certificate_file": "certificate", "key_file": "locked_key"}, "cannot be used together"),
        ({"tls": True, "certificate_file": "certificate", "key_file": "open_password"}, "open to every user"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong(files: Files, changes: dict[str, Any], why: str) -> None:
    named = {name: getattr(files, value, value) if isinstance(value, str) else value for name, value in changes.items()}
    with pytest.raises(BadZooKeeperSecurity, match=why) as error:
        sasl(files, **named).check()
    assert SECRET not in str(error.value) and "\n" not in str(error.value)


def test_closed_nodes_need_a_login() -> None:
    with pytest.raises(BadZooKeeperSecurity, match="acl = auth needs"):
        ZooKeeperSecurity(acl=NodeAccess.AUTH).check()


def test_a_missing_package_is_named(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_security, "find_spec", lambda _: None)
    with pytest.raises(BadZooKeeperSecurity, match="pip install"):
        sasl(files).check()
