"""SCRAM: the vectors of RFC 7677, every client's forms, and no way to tell whether a user exists."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.metadata_records import UserScramCredentialRecord
from bmq.security.sasl.scram import Scram, ScramSecret
from bmq.security.sasl.scram_keys import SHA_256, SHA_512, ScramMechanism
from bmq.security.sasl.steps import Accepted, Challenge, Rejected, Step
from tests.unit.security.sasl.scram_client import ScramClient, keys

pytestmark = pytest.mark.unit


def server(*users: UserScramCredentialRecord, mechanism: ScramMechanism = SHA_256, nonce: str = "servernonce") -> Scram:
    known = {one.name: one for one in users if one.mechanism == mechanism.number}

    def lookup(name: str, is_token: bool) -> ScramSecret | None:
        one = None if is_token else known.get(name)
        return one and ScramSecret(one.name, one.salt, one.stored_key, one.server_key, one.iterations)  # type: ignore[return-value]

    return Scram(mechanism, lookup, nonce, b"secret of the process")


def login(scram: Scram, client: ScramClient, nonce_prefix: str = "") -> Step:
    first = scram.step(client.first())
    return scram.step(client.last(first.data, nonce_prefix)) if isinstance(first, Challenge) else first


def test_the_exchange_of_rfc_7677() -> None:
    scram = server(
        keys("user", "pencil", salt=base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")),
        nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    )
    assert scram.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert scram.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == Accepted("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "müller"])
@pytest.mark.parametrize("password", ["secret", "p=a,ss", "=2C,", "pässwörd ", "密码"])
def test_right_and_wrong_passwords(mechanism: ScramMechanism, user: str, password: str) -> None:
    made = keys(user, password, mechanism)
    client = ScramClient(user, password, mechanism)
    step = login(server(made, mechanism=mechanism), client)
    assert isinstance(step, Accepted) and step.user == user and client.verify(step.data)
    wrong = login(server(made, mechanism=mechanism), ScramClient(user, "Secret", mechanism))
    assert isinstance(wrong, Rejected) and not wrong.message


def test_who_does_not_exist_looks_like_everybody() -> None:
    firsts = [server().step(ScramClient(name, "x").first()) for name in ("nobody", "nobody", "another")]
    salts = [one.data.split(b"s=")[1] for one in firsts if isinstance(one, Challenge)]
    assert salts[0] == salts[1] != salts[2]
    unknown, wrong = (login(server(keys("alice", "secret")), ScramClient(name, "x")) for name in ("nobody", "alice"))
    assert isinstance(unknown, Rejected) and isinstance(wrong, Rejected)
    assert unknown == replace(wrong, reason=wrong.reason.replace("alice", "nobody"))


@pytest.mark.parametrize(
    ("extensions", "header"), [("", "n,a=alice,"), (",ext=1", "n,,"), (",tokenauth=false,x=y", "n,,")]
)
def test_forms_of_the_first_message_that_clients_send(extensions: str, header: str) -> None:
    client = ScramClient("alice", "secret", extensions=extensions, header=header)
    assert isinstance(login(server(keys("alice", "secret")), client), Accepted)


def test_a_nonce_sent_twice_is_accepted_and_another_one_is_not() -> None:
    made = keys("alice", "secret")
    assert isinstance(login(server(made), ScramClient("alice", "secret"), "clientnonce"), Accepted)
    scram = server(made)
    client = ScramClient("alice", "secret")
    scram.step(client.first())
    other = client.last(b"r=clientnonceservernonc,s=c29tZSBzYWx0,i=4096")
    assert scram.step(other) == Rejected("another nonce than the server's")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=alice",
        b"n,,n=a=41lice,r=x",
        b"n,,n=al\0ice,r=x",
        b"\xff\xfe",
        b"n,,n=" + b"a" * 9000 + b",r=x",
    ],
)
def test_another_form_is_refused(message: bytes) -> None:
    assert isinstance(server(keys("alice", "secret")).step(message), Rejected)


def test_nobody_logs_in_as_somebody_else() -> None:
    step = server(keys("alice", "secret")).step(b"n,a=admin,n=alice,r=x")
    assert isinstance(step, Rejected) and "authorization id that is different" in step.message


def test_keys_with_few_iterations_let_nobody_in() -> None:
    step = server(keys("alice", "secret", iterations=100)).step(ScramClient("alice", "secret").first())
    assert isinstance(step, Rejected) and "100 iterations, 4096 are the least" in step.reason


@given(st.lists(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), min_size=1, max_size=3))
def test_bytes_of_any_kind_get_an_answer(messages: list[bytes]) -> None:
    scram = server(keys("alice", "secret"))
    for message in messages:
        step = scram.step(message)
        assert isinstance(step, Challenge | Rejected)
        if isinstance(step, Rejected):
            return
