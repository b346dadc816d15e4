"""PLAIN: JAAS users, users with SCRAM keys, and passwords that are remembered as long as they are right."""

from __future__ import annotations

import pytest

from bmq.metadata.credentials import Users
from bmq.security.sasl.jaas import PLAIN_MODULE, plain_users
from bmq.security.sasl.plain import Plain, RightPasswords
from bmq.security.sasl.scram_keys import SHA_512
from bmq.security.sasl.steps import Accepted, Deferred, Rejected, Step
from tests.unit.security.sasl.scram_client import keys

pytestmark = pytest.mark.unit

USERS: Users = {"alice": {1: keys("alice", "secret"), 2: keys("alice", "other", SHA_512)}}


class Door:
    def __init__(self, users: Users = USERS, remembered_max: int = 2) -> None:
        self.users = users
        self.right = RightPasswords(b"k" * 32, remembered_max)
        self.works = 0

    def login(self, message: bytes) -> Step:
        step = Plain({"admin": "root"}, self.users, self.right, b"k" * 32).step(message)
        if isinstance(step, Deferred):
            self.works += 1
            return step.work()
        return step


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (b"\0admin\0root", "admin"),
        (b"\0alice\0secret", "alice"),
        (b"\0alice\0other", "alice"),
        (b"alice\0alice\0secret", "alice"),
    ],
)
def test_right_passwords(message: bytes, user: str) -> None:
    assert Door().login(message) == Accepted(user)


@pytest.mark.parametrize("message", [b"\0admin\0Root", b"\0alice\0Secret", b"\0nobody\0secret", b"\0admin\0secret"])
def test_wrong_passwords_all_get_one_answer(message: bytes) -> None:
    step = Door().login(message)
    assert isinstance(step, Rejected) and step.message == "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"alice\0secret", "expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"admin\0alice\0secret", "authorization id that is different from username"),
        (b"\0al\xffce\0secret", "Invalid username or password"),
        (b"\0alice\0" + b"x" * 5000, "Invalid username or password"),
    ],
)
def test_another_form_is_refused(message: bytes, why: str) -> None:
    step = Door().login(message)
    assert isinstance(step, Rejected) and why in step.message
    assert "secret" not in step.reason + step.message


def test_a_right_password_is_computed_once_and_a_changed_one_is_forgotten() -> None:
    door = Door({"alice": {1: keys("alice", "secret")}})
    assert [door.login(b"\0alice\0secret") for _ in range(3)] == [Accepted("alice")] * 3
    assert door.works == 1
    door.users = {"alice": {1: keys("alice", "changed")}}
    assert isinstance(door.login(b"\0alice\0secret"), Rejected)
    door.users = {}
    assert isinstance(door.login(b"\0alice\0secret"), Rejected)
    assert door.works == 3  # somebody who does not exist takes as long


def test_what_is_remembered_is_bounded() -> None:
    users = {name: {1: keys(name, "secret")} for name in ("a", "b", "c")}
    door = Door(users)
    for name in (b"a", b"b", b"c"):
        door.login(b"\0" + name + b"\0secret")
    assert len(door.right) == 2


def test_a_jaas_line() -> None:
    line = f'{PLAIN_MODULE} required username="admin" password="x"\n user_admin="a\\"b;c" user_bob=plain ;'
    assert plain_users(line) == {"admin": 'a"b;c', "bob": "plain"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        'user_a="secret";',
        f'{PLAIN_MODULE} required user_a="secret"',
        f'{PLAIN_MODULE} required user_a="secret;',
        f'{PLAIN_MODULE} required user_a="";',
        f'{PLAIN_MODULE} required user_="secret";',
        f'{PLAIN_MODULE} perhaps user_a="secret";',
        'org.apache.kafka.common.security.scram.ScramLoginModule required user_a="secret";',
    ],
)
def test_a_bad_jaas_line_is_refused_without_its_secrets(line: str) -> None:
    with pytest.raises(ValueError, match=r"JAAS|login module") as refused:
        plain_users(line)
    assert "secret" not in str(refused.value)
