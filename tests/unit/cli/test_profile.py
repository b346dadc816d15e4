"""`bmq profile`: what is kept, which profile is in force, and to whom its login goes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.cli.kafka.options import cluster_settings
from bmq.cli.late_groups import _with_profile_first
from bmq.cli.profiles import NoProfile, Profiles, ProfilesUnusable, in_force, profiles_file, put_in_force
from bmq.rest_client.login import LoginUnusable
from tests.unit.cli.rest_node import Node

pytestmark = pytest.mark.unit

BASIC = "Basic YWxpY2U6Z2VoZWlt"  # alice:geheim


def bmq(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def done(*arguments: str) -> str:
    result = bmq(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "alice.secret"
    path.write_text("geheim\n")
    path.chmod(0o600)
    return path


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("BMQ_BOOTSTRAP", "BMQ_REST_URL", "BMQ_PROFILE", "BMQ_KAFKA"):
        monkeypatch.delenv(name, raising=False)

    def ours() -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith("BMQ_")}

    before = ours()
    yield
    assert ours() == before, "no command leaves variables behind"
    assert in_force() is None


def add_two(password: Path) -> None:
    done(
        "profile",
        "add",
        "one",
        "--rest",
        "10.0.0.1:8080",
        "--rest-user",
        "alice",
        "--rest-password-file",
        str(password),
    )
    done("profile", "add", "two", "--rest", "http://10.0.0.2:8080", "--bootstrap", "10.0.0.2:9092", "--use")


def test_profiles_are_kept_for_their_owner_alone(password: Path, no_profiles: Path) -> None:
    add_two(password)
    assert stat.S_IMODE(no_profiles.stat().st_mode) == 0o600
    assert "geheim" not in no_profiles.read_text()
    assert [(row["name"], row["is_current"]) for row in json.loads(done("profile", "list", "--json"))] == [
        ("one", False), ("two", True),
    ]  # fmt: skip
    lines = done("profile", "list").splitlines()
    assert lines[2].split() == ["*", "two", "10.0.0.2:9092", "http://10.0.0.2:8080"]
    shown = done("profile", "show", "one")
    assert f"rest password file  {password}" in shown
    assert "geheim" not in shown
    assert json.loads(done("profile", "show", "--json"))["name"] == "two"
    done("profile", "use", "one")
    done("profile", "remove", "one")
    assert Profiles(no_profiles).current() == ""
    assert list(Profiles(no_profiles).all()) == ["two"]
    assert isinstance(bmq("profile", "use", "one").exception, NoProfile)
    assert isinstance(bmq("profile", "show").exception, NoProfile)


def test_the_current_profile_is_weaker_than_variables_and_options(
    node: Node, password: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_two(password)
    done("cluster", "status")
    assert node.hosts.pop() == "10.0.0.2:8080"
    done("cluster", "status", "--rest", "http://10.0.0.3:8080")
    assert node.hosts.pop() == "10.0.0.3:8080"
    with monkeypatch.context() as patched:
        patched.setenv("BMQ_REST_URL", "http://10.0.0.1:8080")
        done("cluster", "status")
        assert node.hosts.pop() == "10.0.0.1:8080"
    done("profile", "use")
    done("cluster", "status")
    assert node.hosts.pop() == "127.0.0.1:8080"


@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_named_profile_is_stronger_than_variables_wherever_it_stands(
    node: Node, password: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    add_two(password)
    words = ["cluster", "topics", "--prefix", "ord"]
    with monkeypatch.context() as patched:
        patched.setenv("BMQ_REST_URL", "http://10.0.0.2:8080")
        done(*words[:place], "--profile", "one", *words[place:])
        done(*words[:place], "--profile=one", *words[place:])
    assert node.hosts == ["10.0.0.1:8080"] * 2
    assert node.logins == [BASIC] * 2


def test_a_login_goes_to_the_address_of_its_profile_alone(node: Node, password: Path, tmp_path: Path) -> None:
    add_two(password)
    done("cluster", "status", "--profile", "one", "--rest", "http://10.0.0.3:8080")
    assert node.logins.pop() is None
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    token.chmod(0o600)
    done("cluster", "status", "--profile", "one", "--rest-token-file", str(token))
    assert node.logins.pop() == "Bearer t0ken"


def test_settings_of_kafka_clients(tmp_path: Path, no_profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "more"
    file.write_text("sasl.username=alice\n")
    given = ["--kafka", "security.protocol=SASL_SSL", "--kafka", f"@{file}"]
    done("profile", "add", "k", "--bootstrap", "b1:9092", *given, "--kafka-variable", "sasl.password=SECRET", "--use")
    take_back = put_in_force("")
    try:
        with pytest.raises(
            ProfilesUnusable, match=r"the value of sasl\.password in the variable SECRET, which is not set"
        ):
            cluster_settings("b1:9092", None)
        with monkeypatch.context() as patched:
            patched.setenv("SECRET", "geheim und mehr")
            assert cluster_settings("b1:9092", ["security.protocol=SSL"]) == {
                "bootstrap.servers": "b1:9092",
                "security.protocol": "SSL",
                "sasl.username": "alice",
                "sasl.password": "geheim und mehr",
            }
        assert cluster_settings("elsewhere:9092", None) == {"bootstrap.servers": "elsewhere:9092"}
    finally:
        take_back()
    assert "geheim" not in no_profiles.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a/b", "--rest", "h:1"], "is no name"),
        (["a"], "needs --bootstrap, --rest, or both"),
        (["a", "--bootstrap", "h:1", "--kafka", "sasl.password=geheim"], "sasl.password is a secret"),
        (["a", "--bootstrap", "h:1", "--kafka-variable", "x=a-b"], "is no name of a variable"),
        (["a", "--bootstrap", "h:1", "--rest-ca-file", "f"], "needs --rest"),
        (["a", "--rest", "http://alice:geheim@h:1"], "it has a login in it"),
    ],
)
def test_what_cannot_be_a_profile_is_refused(arguments: list[str], words: str, no_profiles: Path) -> None:
    result = bmq("profile", "add", *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())
    assert "geheim" not in result.output
    assert not no_profiles.exists()


def test_half_a_login_is_refused(no_profiles: Path) -> None:
    assert isinstance(bmq("profile", "add", "a", "--rest", "h:1", "--rest-user", "alice").exception, LoginUnusable)
    assert not no_profiles.exists()


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", '{"format": 2, "current": "", "profiles": {}}',
        '{"format": 1, "current": "", "profiles": {"a": {"password": "x"}}}',
        '{"format": 1, "current": "", "profiles": {"a": {"kafka": {"a": 1}}}}',
        '{"format": 1, "current": "", "profiles": []}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_one_sentence_and_stops_no_server(no_profiles: Path, text: str) -> None:
    no_profiles.parent.mkdir()
    no_profiles.write_text(text)
    no_profiles.chmod(0o600)
    result = bmq("cluster", "status")
    assert isinstance(result.exception, ProfilesUnusable)
    assert str(result.exception).startswith(f"{no_profiles} is no file of profiles")
    assert bmq("standalone", "--help").exit_code == 0


def test_a_file_that_others_may_write_is_refused(no_profiles: Path, password: Path) -> None:
    add_two(password)
    no_profiles.chmod(0o622)
    assert "may be written by other users" in str(bmq("profile", "list").exception)


def test_an_unknown_profile_is_named() -> None:
    result = bmq("cluster", "status", "--profile", "nowhere")
    assert isinstance(result.exception, NoProfile)
    assert "there is no profile 'nowhere'" in str(result.exception)


def test_where_the_file_is() -> None:
    assert profiles_file({"BMQ_PROFILES": "/x", "HOME": "/h"}) == Path("/x")
    assert profiles_file({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == Path("/c/bmq/profiles.json")
    assert profiles_file({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == Path("/h/.config/bmq/profiles.json")


def test_words_behind_two_hyphens_are_no_options() -> None:
    words = ["topic", "produce", "--", "--profile", "x"]
    assert _with_profile_first(words) == words
