"""The state of a login over raw frames, as Kafka's SaslServerAuthenticator has it."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.metadata_request import MetadataRequest
from bmq.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from bmq.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from bmq.security.sasl.authenticator import (
    Answer,
    Authenticated,
    Failed,
    Outcome,
    PassOn,
    SaslAuthenticator,
    Work,
)
from bmq.security.sasl.steps import Accepted, Challenge, Deferred, Rejected, Step, Unavailable

pytestmark = pytest.mark.unit

STEPS: dict[bytes, Step] = {
    b"more": Challenge(b"challenge"),
    b"right": Accepted("alice", b"last"),
    b"bob": Accepted("bob"),
    b"soon": Accepted("alice", expires_at_ms=1_003_000),
    b"late": Accepted("alice", expires_at_ms=1_000_000),
    b"slow": Deferred(lambda: Accepted("alice")),
    b"away": Unavailable("no keys yet"),
}


class Scripted:
    def step(self, message: bytes) -> Step:
        return STEPS.get(message, Rejected("a wrong password"))


class Login:
    def __init__(self, session_ms: int = 0, out_of_date: str = "") -> None:
        self.elapsed_s = 50.0
        self.authenticator = SaslAuthenticator(
            {"PLAIN": Scripted, "OTHER": Scripted},
            lambda name: session_ms,
            lambda: 1_000_000,
            lambda: self.elapsed_s,
            lambda name: name == out_of_date,
        )

    def send(self, api_key: ApiKey, version: int, message: Any) -> Outcome:
        return self.authenticator.receive(bytearray(encode_request(api_key, version, 7, "client", message)))

    def versions(self, version: int = 3) -> Outcome:
        return self.send(
            ApiKey.API_VERSIONS, version, ApiVersionsRequest(client_software_name="a", client_software_version="1")
        )

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Outcome:
        return self.send(ApiKey.SASL_HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def token(self, data: bytes, version: int = 2) -> Outcome:
        return self.send(ApiKey.SASL_AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=data))


def message(outcome: Outcome, api_key: ApiKey, version: int) -> Any:
    assert isinstance(outcome, Answer | Authenticated | Failed) and outcome.frame is not None
    correlation_id, response = decode_response(api_key, version, outcome.frame)
    assert correlation_id == 7
    return response


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_whole_way(version: int) -> None:
    login = Login()
    assert login.versions() == PassOn()
    answered = message(login.handshake(), ApiKey.SASL_HANDSHAKE, 1)
    assert (answered.error_code, tuple(answered.mechanisms)) == (0, ("PLAIN", "OTHER"))
    assert message(login.token(b"more", version), ApiKey.SASL_AUTHENTICATE, version).auth_bytes == b"challenge"
    last = login.token(b"right", version)
    assert isinstance(last, Authenticated) and login.authenticator.is_done
    assert (last.principal, last.mechanism, last.session_s) == ("User:alice", "PLAIN", None)
    assert message(last, ApiKey.SASL_AUTHENTICATE, version).auth_bytes == b"last"


def test_raw_tokens_after_handshake_v0() -> None:
    login = Login()
    login.handshake(version=0)
    assert login.authenticator.receive(bytearray(b"more")) == Answer(b"challenge")
    last = login.authenticator.receive(bytearray(b"right"))
    assert isinstance(last, Authenticated) and last.frame == b"last"
    wrong = Login()
    wrong.handshake(version=0)
    assert wrong.authenticator.receive(bytearray(b"guess")) == Failed(
        None, "its authentication by PLAIN failed: a wrong password", is_wrong=True
    )


def test_a_wrong_password_gets_58() -> None:
    login = Login()
    login.handshake()
    failed = login.token(b"guess")
    assert isinstance(failed, Failed) and failed.is_wrong
    answered = message(failed, ApiKey.SASL_AUTHENTICATE, 2)
    assert answered.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answered.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    )


@pytest.mark.parametrize("version", [0, 1])
def test_while_users_may_have_changed_unheard_nothing_is_final(version: int) -> None:
    login = Login(out_of_date="PLAIN")
    login.handshake(version=version)
    guess = login.authenticator.receive(bytearray(b"guess")) if version == 0 else login.token(b"guess")
    assert isinstance(guess, Failed) and (guess.frame, guess.is_wrong) == (None, True)
    assert "a wrong password; no controller answers here" in guess.reason
    right = Login(out_of_date="PLAIN")
    right.handshake()
    assert isinstance(right.token(b"right"), Authenticated)
    other = Login(out_of_date="PLAIN")
    other.handshake("OTHER")
    refused = message(other.token(b"guess"), ApiKey.SASL_AUTHENTICATE, 2)
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_what_passes_is_no_failure_of_the_credentials() -> None:
    login = Login()
    login.handshake()
    assert login.token(b"away") == Failed(None, "its login by PLAIN cannot be checked now: no keys yet")


def test_an_unknown_mechanism_is_answered_with_those_there_are() -> None:
    failed = Login().handshake("GSSAPI")
    answered = message(failed, ApiKey.SASL_HANDSHAKE, 1)
    assert answered.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM and tuple(answered.mechanisms) == (
        "PLAIN",
        "OTHER",
    )
    assert isinstance(failed, Failed) and not failed.is_wrong


def test_another_request_before_the_end_closes() -> None:
    for begin in ([], ["versions"], ["versions", "handshake"]):
        login = Login()
        for name in begin:
            getattr(login, name)()
        failed = login.send(ApiKey.METADATA, 12, MetadataRequest())
        assert isinstance(failed, Failed) and failed.frame is None and "API 3" in failed.reason


def test_a_second_api_versions_closes_and_an_unknown_version_may_be_repeated() -> None:
    login = Login()
    assert login.send(ApiKey.API_VERSIONS, 4, ApiVersionsRequest()) == PassOn()
    assert isinstance(login.versions(), Failed)
    frame = bytearray(encode_request(ApiKey.API_VERSIONS, 3, 7, "client", ApiVersionsRequest()))
    frame[2:4] = (99).to_bytes(2, "big")
    repeated = Login()
    assert [repeated.authenticator.receive(frame), repeated.versions()] == [PassOn(), PassOn()]


@pytest.mark.parametrize("order", [["token"], ["handshake", "handshake"], ["handshake", "versions"]])
def test_out_of_order(order: list[str]) -> None:
    login = Login()
    outcomes = [login.token(b"right") if name == "token" else getattr(login, name)() for name in order]
    assert isinstance(outcomes[-1], Failed) and outcomes[-1].frame is None


@pytest.mark.parametrize("frame", [b"", b"\x60\x82", b"\0\x11\0\1", b"\0\x11\0\x09\0\0\0\1\xff\xff", b"\xff" * 40])
def test_frames_that_do_not_parse_close(frame: bytes) -> None:
    failed = Login().authenticator.receive(bytearray(frame))
    assert isinstance(failed, Failed) and failed.frame is None


def test_endless_exchanges_end() -> None:
    login = Login()
    login.handshake()
    outcomes = [login.token(b"more") for _ in range(11)]
    assert isinstance(outcomes[9], Answer) and isinstance(outcomes[10], Failed)


def test_work_goes_elsewhere_and_comes_back() -> None:
    login = Login()
    login.handshake()
    work = login.token(b"slow")
    assert isinstance(work, Work) and not login.authenticator.is_done
    assert isinstance(login.authenticator.resume(work.work()), Authenticated)


@pytest.mark.parametrize(
    ("session_ms", "token", "expected_ms"),
    [(5_000, b"right", 5_000), (0, b"soon", 3_000), (2_000, b"soon", 2_000), (9_000, b"soon", 3_000)],
)
def test_a_session_ends_with_its_limit_or_its_credential(session_ms: int, token: bytes, expected_ms: int) -> None:
    login = Login(session_ms)
    login.handshake()
    done = login.token(token)
    assert isinstance(done, Authenticated) and done.session_s == expected_ms / 1000
    assert message(done, ApiKey.SASL_AUTHENTICATE, 2).session_lifetime_ms == expected_ms


def test_what_has_expired_is_refused() -> None:
    login = Login()
    login.handshake()
    assert isinstance(login.token(b"late"), Failed)


def test_re_authentication_keeps_mechanism_and_user() -> None:
    def authenticated() -> Login:
        login = Login(5_000)
        login.handshake()
        assert isinstance(login.token(b"right"), Authenticated)
        return login

    login = authenticated()
    assert message(login.handshake(), ApiKey.SASL_HANDSHAKE, 1).error_code == 0
    assert isinstance(login.token(b"right"), Authenticated)
    login.elapsed_s += 0.5
    early = login.handshake()
    assert message(early, ApiKey.SASL_HANDSHAKE, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert isinstance(early, Answer) and login.authenticator.is_done
    login.elapsed_s += 0.5
    assert message(login.handshake(), ApiKey.SASL_HANDSHAKE, 1).error_code == 0

    other_user = authenticated()
    other_user.handshake()
    answered = message(other_user.token(b"bob"), ApiKey.SASL_AUTHENTICATE, 2)
    assert answered.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answered.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"

    other_mechanism = authenticated()
    other_mechanism.handshake("OTHER")
    answered = message(other_mechanism.token(b"right"), ApiKey.SASL_AUTHENTICATE, 2)
    assert answered.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED

    wrong = authenticated()
    wrong.handshake()
    answered = message(wrong.token(b"guess"), ApiKey.SASL_AUTHENTICATE, 2)
    assert "during re-authentication due to invalid credentials" in (answered.error_message or "")
