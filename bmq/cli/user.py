"""`bmq user`: users that log in by SCRAM, and by PLAIN where it is enabled. Passwords are never arguments."""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from bmq.cli.kafka.options import (
    DEFAULT_BOOTSTRAP,
    AsCsv,
    AsJson,
    Bootstrap,
    KafkaSettings,
    Yes,
    confirm,
    connected,
)
from bmq.cli.kafka.rows import Column, output_of, print_rows
from bmq.cli.operator_holder import operator_holder
from bmq.cli.setting_options import ConfigFile, Data, StoreUrl, load
from bmq.cli.terminal import is_terminal
from bmq.log.store import AlreadyExists
from bmq.metadata.first_users import FIRST_USERS_FILE, write_first_users
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import UserScramCredentialRecord
from bmq.security.sasl.scram_keys import (
    BY_NAME,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramMechanism,
    keys_of,
    salted_password,
)
from bmq.server.own_root import open_own_root
from bmq.server.settings import Settings
from bmq.server.start_retry import StartRetry
from bmq.server.stores import open_store

user_app = typer.Typer(
    no_args_is_help=True,
    help="Users who log in by SASL: add, list and delete them in a cluster; bootstrap the first one of a new cluster.",
)
PASSWORD_BYTES_MAX: Final = 1_024
_COLUMNS: Final = (Column("user"), Column("mechanism"), Column("iterations"))

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user")]
Mechanisms = Annotated[
    list[str] | None, typer.Option("--mechanism", metavar="SCRAM-SHA-…", help="Only this mechanism; may be repeated")
]
Iterations = Annotated[int, typer.Option(min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="Rounds of PBKDF2")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The password is the first line of this file [asked, or standard input]"),
]


@user_app.command("add")
def add(
    context: typer.Context,
    name: Name,
    mechanisms: Mechanisms = None,
    iterations: Iterations = ITERATIONS_MIN,
    password_file: PasswordFile = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
) -> None:
    """Add a user, or change the password of one."""
    wanted = _mechanisms(mechanisms)
    client = connected(context, bootstrap, kafka)
    password = _password(password_file)
    for mechanism in wanted:
        client.add_user(name, mechanism.name, iterations, password)
    sys.stdout.write(f"user {name} may log in by {', '.join(one.name for one in wanted)}\n")


@user_app.command("list")
def list_users(
    context: typer.Context,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    kafka: KafkaSettings = None,
) -> None:
    """All users, and how they may log in."""
    output = output_of(as_json=as_json, as_csv=as_csv)
    rows = [
        {"user": name, "mechanism": mechanism, "iterations": iterations}
        for name, mechanism, iterations in connected(context, bootstrap, kafka).users()
    ]
    print_rows(_COLUMNS, rows, output)


@user_app.command("delete")
def delete(
    context: typer.Context,
    name: Name,
    mechanisms: Mechanisms = None,
    is_sure: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka: KafkaSettings = None,
) -> None:
    """Delete a user. Connections that are open go on until they close or log in again."""
    client = connected(context, bootstrap, kafka)
    wanted = {one.name for one in _mechanisms(mechanisms)}
    found = [mechanism for user, mechanism, _ in client.users() if user == name and mechanism in wanted]
    if not found:
        raise NoSuchUser(f"there is no user {name!r} with {' or '.join(sorted(wanted))}")
    confirm(is_sure=is_sure, question=f"Delete {', '.join(found)} of user {name}?")
    for mechanism in found:
        client.delete_user(name, mechanism)
    sys.stdout.write(f"user {name} may no longer log in by {', '.join(found)}\n")


@user_app.command("bootstrap")
def bootstrap_user(
    name: Name,
    mechanisms: Mechanisms = None,
    iterations: Iterations = ITERATIONS_MIN,
    password_file: PasswordFile = None,
    data: Data = None,
    store: StoreUrl = None,
    config: ConfigFile = None,
) -> None:
    """Write the first user into the store of a cluster that was never started, whose root it makes."""
    settings = load(config, data=data, store=store).settings
    wanted = _mechanisms(mechanisms)
    password = _password(password_file)
    keys = [keys_for(name, mechanism, iterations, password) for mechanism in wanted]
    asyncio.run(write_users(settings, keys))
    sys.stdout.write(f"user {name} may log in from the first start on, by {', '.join(one.name for one in wanted)}\n")


class NoSuchUser(BmqError):
    """There is no such user, or not with these mechanisms."""


class TooLate(BmqError):
    """The cluster has been started, or has its first user already."""


async def write_users(settings: Settings, keys: list[UserScramCredentialRecord]) -> None:
    """Write the first users of a cluster that was never started. Raises TooLate, StoreError, RootError."""
    holder = operator_holder()
    store = await open_store(settings, random.Random())  # locked: no server may be starting on it
    try:
        names = {entry.name for entry in await store.list_directory("")}
        if "topics" in names:
            raise TooLate("the cluster has been started already: use `bmq user add`")
        await open_own_root(store, settings, holder, random.Random(), StartRetry(settings.start_wait_ms))
        try:
            await write_first_users(store, keys, holder)
        except AlreadyExists:
            raise TooLate(
                f"{FIRST_USERS_FILE} is there already: delete it from the store to choose another user"
            ) from None
    finally:
        await store.close()


def keys_for(name: str, mechanism: ScramMechanism, iterations: int, password: str) -> UserScramCredentialRecord:
    """The record of a password's keys, with a new salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    keys = keys_of(mechanism, salted_password(mechanism, password.encode(), salt, iterations))
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.number,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


def _mechanisms(names: list[str] | None) -> list[ScramMechanism]:
    unknown = sorted(set(names or ()) - BY_NAME.keys())
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)} is none of {', '.join(BY_NAME)}", param_hint="--mechanism")
    return [BY_NAME[name] for name in dict.fromkeys(names or BY_NAME)]


def _password(file: Path | None) -> str:
    if file is not None:
        try:
            with file.open(encoding="utf-8") as lines:
                password = lines.readline(PASSWORD_BYTES_MAX + 2).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise typer.BadParameter(f"cannot read {file}: {reason}", param_hint="--password-file") from error
    elif is_terminal():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline(PASSWORD_BYTES_MAX + 2).rstrip("\r\n")
    if not password or len(password) > PASSWORD_BYTES_MAX:
        raise typer.BadParameter(f"a password has 1 to {PASSWORD_BYTES_MAX} characters")
    return password
