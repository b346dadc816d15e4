"""`bmq token`: bearer tokens for the REST API, in the file that servers read."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from bmq.cli.kafka.options import AsCsv, AsJson
from bmq.cli.kafka.rows import Column, output_of, print_rows
from bmq.cli.private_file import private_file
from bmq.cli.setting_options import ConfigFile, load
from bmq.protocol.errors import BmqError
from bmq.security.bearer_tokens import TOKENS_MAX, KeptToken, new_token, wrong_user
from bmq.server.token_file import changing, read_tokens

token_app = typer.Typer(
    no_args_is_help=True,
    help="Bearer tokens for the REST API: make, list and revoke them in the file that servers read.",
)
DAYS_MAX: Final = 3_650
_DAY_MS: Final = 24 * 3_600 * 1_000
_COLUMNS: Final = (Column("id"), Column("user"), Column("created"), Column("expires"), Column("state"))

TokensFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="The file of tokens [rest_security.tokens_file]")
]


class NoTokensFile(BmqError):
    """It is not said which file has the tokens."""


class NoSuchToken(BmqError):
    """There is no token of that id."""


class NoRoom(BmqError):
    """The file, or the one for the new token, cannot be written."""


@token_app.command("create")
def create(
    user: Annotated[str, typer.Argument(metavar="USER", help="Name of the user that the token stands for")],
    days: Annotated[int, typer.Option(min=1, max=DAYS_MAX, help="The token ends after this many days")] = 365,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the token to this new file [standard output]")
    ] = None,
    file: TokensFile = None,
    config: ConfigFile = None,
) -> None:
    """Make a token and print it, once: the file keeps a hash. It counts within 5 s on servers that have the file."""
    if (why := wrong_user(user)) is not None:
        raise typer.BadParameter(why, param_hint="USER")
    path = _path(file, config)
    with changing(path) as tokens:
        now_ms = _now_ms()
        if len(tokens) >= TOKENS_MAX:
            for one in [one for one in tokens.values() if one.expires_ms <= now_ms]:
                del tokens[one.token_id]
            if len(tokens) >= TOKENS_MAX:
                raise NoRoom(f"{path} has {TOKENS_MAX} tokens, and there is room for no more: revoke some")
        token, kept = new_token(user, now_ms, days * _DAY_MS, tokens, os.urandom)
        tokens[kept.token_id] = kept
        if out is not None:
            with private_file(out, NoRoom) as secret:
                secret.write(f"{token}\n".encode())
    if out is None:
        sys.stdout.write(f"{token}\n")
    sys.stderr.write(f"token {kept.token_id} of {user} ends at {_text(kept.expires_ms)}\n")


@token_app.command("list")
def list_tokens(
    file: TokensFile = None, config: ConfigFile = None, as_json: AsJson = False, as_csv: AsCsv = False
) -> None:
    """All tokens: whose they are and when they end."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    now_ms = _now_ms()
    tokens = read_tokens(_path(file, config)).values()
    rows = [_row(one, now_ms) for one in sorted(tokens, key=lambda one: (one.created_ms, one.token_id))]
    print_rows(_COLUMNS, rows, output)


@token_app.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as `bmq token list` shows it")],
    file: TokensFile = None,
    config: ConfigFile = None,
) -> None:
    """Take a token back. Servers that have the file refuse it within 5 s."""
    path = _path(file, config)
    read_tokens(path)  # a file that is not there is no place to revoke from
    with changing(path) as tokens:
        kept = tokens.pop(token_id, None)
        if kept is None:
            raise NoSuchToken(f"there is no token {token_id[:40]!r} in {path}")
    sys.stdout.write(f"token {token_id} of {kept.user} is revoked\n")


def _path(file: Path | None, config: Path | None) -> Path:
    """Raises NoTokensFile."""
    if file is not None:
        return file
    found = load(config).settings.rest_security.tokens_file
    if not found:
        raise NoTokensFile("name the file of tokens with --file, or set rest_security.tokens_file")
    return Path(found)


def _row(one: KeptToken, now_ms: int) -> dict[str, object]:
    return {
        "id": one.token_id,
        "user": one.user,
        "created": _text(one.created_ms),
        "expires": _text(one.expires_ms),
        "state": "expired" if one.expires_ms <= now_ms else "valid",
    }


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="seconds")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
