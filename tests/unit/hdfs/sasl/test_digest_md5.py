"""DIGEST-MD5, against RFC 2831's own example and against a server that is written from its text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.errors import AuthenticationRequired
from bmq.hdfs.sasl.digest_md5 import BadDigest, DigestLayer, DigestMd5
from bmq.hdfs.security import Protection

pytestmark = pytest.mark.unit

RFC_CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'  # section 4
)
RFC_PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"
CHALLENGE = b'realm="default",nonce="n+1",qop="%s",charset=utf-8,cipher="3des,rc4,des",algorithm=md5-sess'


def of_rfc() -> DigestMd5:
    return DigestMd5(
        "chris",
        "secret",
        service="imap",
        host="elwood.innosoft.com",
        wanted=[Protection.AUTHENTICATION],
        cnonce="OA6MHXh6VqTrRk",
    )


def of_token(*wanted: Protection) -> DigestMd5:
    return DigestMd5("AAEC", "cGFzcw==", service="hdfs", host="0", wanted=wanted, cnonce="c")


def test_the_example_of_the_rfc() -> None:
    login = of_rfc()
    answer = login.step(RFC_CHALLENGE)
    assert b"response=d388dad90d4bbd760a152321f2143af7" in answer
    assert b'digest-uri="imap/elwood.innosoft.com"' in answer
    assert login.protection is Protection.AUTHENTICATION
    assert not login.is_complete
    assert login.step(RFC_PROOF) == b""
    assert login.is_complete
    assert login.layer is None


def test_a_server_without_the_password_is_refused() -> None:
    login = of_rfc()
    login.step(RFC_CHALLENGE)
    with pytest.raises(BadDigest, match="does not know the token's password"):
        login.step(b"rspauth=ea40f60335c427b5527b84dbabcdfffe")
    assert not login.is_complete


def test_more_than_the_exchange_is_refused() -> None:
    login = of_rfc()
    login.step(RFC_CHALLENGE)
    login.step(RFC_PROOF)
    with pytest.raises(BadDigest, match="after the last one"):
        login.step(RFC_CHALLENGE)


@pytest.mark.parametrize(
    ("offered", "wanted", "chosen"),
    [
        (b"auth,auth-int,auth-conf", (Protection.INTEGRITY, Protection.AUTHENTICATION), Protection.INTEGRITY),
        (b"auth", (Protection.INTEGRITY, Protection.AUTHENTICATION), Protection.AUTHENTICATION),
        (b"auth-conf", (Protection.PRIVACY,), Protection.PRIVACY),
    ],
)
def test_the_first_wanted_protection_that_is_offered_is_taken(
    offered: bytes, wanted: tuple[Protection, ...], chosen: Protection
) -> None:
    login = of_token(*wanted)
    answer = login.step(CHALLENGE % offered)
    assert login.protection is chosen
    assert f"qop={chosen.qop}".encode() in answer
    assert (b'cipher="rc4"' in answer) is (chosen is Protection.PRIVACY)


def test_never_less_protection_than_wanted() -> None:
    with pytest.raises(AuthenticationRequired, match="offers auth, the configuration here demands privacy"):
        of_token(Protection.PRIVACY).step(CHALLENGE % b"auth")


def test_no_cipher_but_rc4() -> None:
    challenge = (CHALLENGE % b"auth-conf").replace(b"3des,rc4,des", b"3des,des")
    with pytest.raises(AuthenticationRequired, match=r"the ciphers 3des, des for privacy: set dfs\.encrypt"):
        of_token(Protection.PRIVACY).step(challenge)


def test_what_a_server_offers_is_no_line_of_its_own() -> None:
    with pytest.raises(AuthenticationRequired, match=r"offers aut\?h, "):
        of_token(Protection.PRIVACY).step(CHALLENGE % b"aut\x1bh")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"nonsense",
        b'realm="a',
        b'nonce="",algorithm=md5-sess',
        b'nonce="a",algorithm=md5',
        b'nonce="a",algorithm=md5-sess,maxbuf=-1',
        b'nonce="a",algorithm=md5-sess,maxbuf=99999999999',
        b"x=y," * 2000,
    ],
)
def test_a_damaged_challenge_is_one_sentence(challenge: bytes) -> None:
    with pytest.raises(BadDigest):
        of_token(Protection.AUTHENTICATION).step(challenge)


@given(st.binary(max_size=300))
def test_no_challenge_breaks_it(challenge: bytes) -> None:
    try:
        of_token(Protection.AUTHENTICATION).step(challenge)
    except AuthenticationRequired:
        pass


def test_quotes_in_a_nonce_survive() -> None:
    answer = of_token(Protection.AUTHENTICATION).step(b'nonce="a\\"b\\\\c",algorithm=md5-sess')
    assert re.search(rb'nonce="a\\"b\\\\c"', answer)


@pytest.mark.parametrize("is_sealed", [False, True])
class TestDigestLayer:
    @given(messages=st.lists(st.tuples(st.booleans(), st.binary(max_size=200)), max_size=8))
    def test_both_sides_understand_each_other(self, is_sealed: bool, messages: list[tuple[bool, bytes]]) -> None:
        client, server = self._sides(is_sealed)
        for is_ours, data in messages:
            sender, receiver = (client, server) if is_ours else (server, client)
            wrapped = sender.wrap(data)
            assert len(wrapped) == len(data) + 16
            assert receiver.unwrap(wrapped) == data
            assert is_sealed or wrapped.startswith(data)

    def test_a_changed_message_is_refused(self, is_sealed: bool) -> None:
        client, server = self._sides(is_sealed)
        wrapped = bytearray(client.wrap(b"data"))
        wrapped[0] ^= 1
        with pytest.raises(BadDigest, match="changed under way"):
            server.unwrap(wrapped)

    def test_a_repeated_message_is_refused(self, is_sealed: bool) -> None:
        client, server = self._sides(is_sealed)
        wrapped = client.wrap(b"data")
        server.unwrap(wrapped)
        with pytest.raises(BadDigest, match="out of order"):
            server.unwrap(wrapped)

    @pytest.mark.parametrize("message", [b"", b"x", b"\0" * 15])
    def test_a_short_message_is_refused(self, is_sealed: bool, message: bytes) -> None:
        _, server = self._sides(is_sealed)
        with pytest.raises(BadDigest, match="out of order"):
            server.unwrap(message)

    @staticmethod
    def _sides(is_sealed: bool) -> tuple[DigestLayer, DigestLayer]:
        secret = b"0123456789abcdef"
        client = DigestLayer(secret, is_sealed=is_sealed, peer_bytes_max=65536)
        return client, DigestLayer(secret, is_sealed=is_sealed, peer_bytes_max=65536, is_client=False)
