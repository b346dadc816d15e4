"""`bmq token`: a token is shown once, and the file that servers read has none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from bmq.cli.rest_token import NoRoom, NoSuchToken, NoTokensFile
from bmq.security.bearer_tokens import TOKENS_MAX, BadTokenFile, KeptToken, verified_user
from bmq.server.token_file import read_tokens, write_tokens

pytestmark = pytest.mark.unit


class Tokens:
    """The command with one file."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "tokens.json"

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["token", *arguments, "--file", str(self.file)])

    def created(self, user: str, *options: str) -> str:
        result = self.run("create", user, *options)
        assert result.exit_code == 0, result.output
        return result.stdout.strip()


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_token_is_made_listed_and_revoked(tokens: Tokens) -> None:
    token = tokens.created("prometheus", "--days", "2")
    tokens.created("backup")
    assert token not in tokens.file.read_text()
    assert tokens.file.stat().st_mode & 0o777 == 0o600
    assert verified_user(read_tokens(tokens.file), token, now_ms()) == "prometheus"
    rows = json.loads(tokens.run("list", "--json").stdout)
    assert [(row["user"], row["state"]) for row in rows] == [("prometheus", "valid"), ("backup", "valid")]
    revoked = tokens.run("revoke", rows[0]["id"])
    assert revoked.stdout == f"token {rows[0]['id']} of prometheus is revoked\n"
    assert [one.user for one in read_tokens(tokens.file).values()] == ["backup"]
    assert isinstance(tokens.run("revoke", rows[0]["id"]).exception, NoSuchToken)


def test_a_token_may_go_to_a_file_of_its_own(tokens: Tokens, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    assert tokens.created("backup", "--out", str(secret)) == ""
    assert secret.stat().st_mode & 0o777 == 0o600
    assert verified_user(read_tokens(tokens.file), secret.read_text().strip(), now_ms()) == "backup"
    assert isinstance(tokens.run("create", "backup", "--out", str(secret)).exception, NoRoom)
    assert len(read_tokens(tokens.file)) == 1


def test_the_file_may_come_from_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "bmq.toml"
    settings.write_text(f'[rest_security]\nlogins = "bearer"\ntokens_file = "{tmp_path}/tokens.json"\n')
    result = CliRunner().invoke(app, ["token", "create", "alice", "--config", str(settings)])
    assert result.exit_code == 0
    assert len(read_tokens(tmp_path / "tokens.json")) == 1
    settings.write_text("")
    result = CliRunner().invoke(app, ["token", "list", "--config", str(settings)])
    assert isinstance(result.exception, NoTokensFile)


def test_what_is_wrong_is_one_sentence(tokens: Tokens, tmp_path: Path) -> None:
    assert tokens.run("create", "a\nb").exit_code == 2
    assert tokens.run("create", "alice", "--days", "0").exit_code == 2
    assert isinstance(tokens.run("revoke", "00000000").exception, BadTokenFile)
    tokens.file.write_text("{}")
    for order in (["create", "alice"], ["list"]):
        assert isinstance(tokens.run(*order).exception, BadTokenFile)
    assert tokens.file.read_text() == "{}"
    nowhere = CliRunner().invoke(app, ["token", "create", "alice", "--file", str(tmp_path / "no" / "tokens.json")])
    assert str(nowhere.exception) == f"{tmp_path}/no cannot be used: No such file or directory"


def test_a_full_file_first_loses_tokens_that_have_expired(tokens: Tokens) -> None:
    late = now_ms() + 60_000
    full = [KeptToken(f"{number:08x}", "a", "0" * 64, 0, late) for number in range(TOKENS_MAX)]
    write_tokens(tokens.file, full)
    assert isinstance(tokens.run("create", "alice").exception, NoRoom)
    write_tokens(tokens.file, [*full[1:], KeptToken("ffffffff", "a", "0" * 64, 0, 1)])
    tokens.created("alice")
    assert len(read_tokens(tokens.file)) == TOKENS_MAX
