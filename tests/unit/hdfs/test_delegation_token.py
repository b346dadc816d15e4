"""Delegation tokens: in Hadoop's files of them, in logins, and never in a text."""

from __future__ import annotations

import pickle
from struct import pack

import pytest

from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.delegation_token import KIND, DelegationToken
from bmq.hdfs.delimited import delimited
from bmq.hdfs.proto.hdfs_pb2 import Credentials, CredentialsEntry, Token
from bmq.hdfs.sasl.logins import TokenAuthentication
from bmq.hdfs.security import BadSecurity, HadoopSecurity
from bmq.hdfs.server_logins import DataNodeLogins, namenode_authentication
from bmq.hdfs.token_file import BadTokenFile, token_in_file

pytestmark = pytest.mark.unit

FIRST = Token(identifier=b"first", password=b"p1", kind=KIND, service="10.0.0.1:8020")
SECOND = Token(identifier=b"i" * 200, password=b"p2", kind=KIND, service="ha-hdfs:prod")
OTHER = Token(identifier=b"yarn", password=b"p3", kind="YARN_AM_RM_TOKEN", service="rm:8030")


def in_protobuf(*tokens: Token) -> bytes:
    return b"HDTS\x01" + delimited(
        Credentials(tokens=[CredentialsEntry(alias=token.service, token=token) for token in tokens])
    )


def in_writable(*tokens: Token) -> bytes:
    def part(data: bytes) -> bytes:
        length = len(data)
        number = bytes((length,)) if length < 128 else b"\x8f" + bytes((length,))  # WritableUtils.writeVInt
        return number + data

    def entry(token: Token) -> bytes:
        texts = (token.service.encode(), token.identifier, token.password, token.kind.encode(), token.service.encode())
        return b"".join(map(part, texts))

    secrets = b"\x00"
    return b"HDTS\x00" + bytes((len(tokens),)) + b"".join(map(entry, tokens)) + secrets


@pytest.mark.parametrize("written", [in_writable, in_protobuf])
def test_the_token_of_our_namenodes_is_found(written):  # type: ignore[no-untyped-def]
    assert token_in_file(written(OTHER, FIRST), ()) == DelegationToken(b"first", b"p1")
    both = written(FIRST, OTHER, SECOND)
    assert token_in_file(both, {"ha-hdfs:prod", "10.0.0.9:8020"}) == DelegationToken(b"i" * 200, b"p2")
    assert token_in_file(both, {"10.0.0.9:8020"}) is None
    assert token_in_file(written(OTHER), ()) is None


@pytest.mark.parametrize("written", [in_writable, in_protobuf])
def test_a_file_that_is_cut_off_is_refused(written) -> None:  # type: ignore[no-untyped-def]
    whole = written(FIRST, SECOND)
    needed = len(whole) - (1 if written is in_writable else 0)  # without the count of secrets, which is not read
    for length in range(needed):
        with pytest.raises(BadTokenFile):
            token_in_file(whole[:length], ("10.0.0.1:8020",))


@pytest.mark.parametrize(
    "data", [b"", b"HDTS", b"HDTX\x00", b"HDTS\x02", b"HDTS\x00\x01\x8c" + pack(">I", 1 << 30), b"HDTS\x00\x01\x87\xff"]
)
def test_what_is_no_file_of_tokens(data: bytes) -> None:
    with pytest.raises(BadTokenFile):
        token_in_file(data, ())


def test_no_text_has_its_secrets() -> None:
    token = DelegationToken(b"who-it-is", b"the-password")
    security = HadoopSecurity(namenode_principal="nn/_HOST@R", delegation=token)
    for shown in (repr(token), str(token), repr(security)):
        assert "who-it-is" not in shown and "the-password" not in shown
    assert pickle.loads(pickle.dumps(token)) == token


def test_the_token_is_the_login_and_kerberos_is_not_asked() -> None:
    security = HadoopSecurity(namenode_principal="nn/_HOST@R", delegation=DelegationToken(b"i", b"p"))
    config = HdfsConfig(namenodes=(Address("nn", 8020),), root="/bmq", security=security)
    assert isinstance(namenode_authentication(config), TokenAuthentication)
    logins = DataNodeLogins(config)
    assert isinstance(
        logins.of("dn", Token(identifier=b"b", password=b"p", kind="k", service="s")), TokenAuthentication
    )
    with pytest.raises(BadSecurity, match="the DataNode at dn needs a login by Kerberos"):
        logins.of("dn", None)
