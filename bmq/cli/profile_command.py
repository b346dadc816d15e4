"""`bmq profile`: named connections to clusters."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table

from bmq.cli.kafka.options import settings_of
from bmq.cli.kafka.rows import printable
from bmq.cli.profiles import NoProfile, Profile, Profiles, profiles_file
from bmq.cli.terminal import add_row, print_json, print_table
from bmq.rest_client.client import NoUrl, RestClient
from bmq.rest_client.login import RestLogin
from bmq.server.listener_settings import is_secret

profile_app = typer.Typer(no_args_is_help=True, help="Named connections to clusters: addresses, and where secrets are.")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TIMEOUT_S: Final = 1.0

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")]


def _profiles() -> Profiles:
    return Profiles(profiles_file(os.environ))


@profile_app.command("add")
def add(
    name: Name,
    bootstrap: Annotated[str, typer.Option("--bootstrap", metavar="HOST:PORT[,…]", help="Servers of the cluster")] = "",
    rest: Annotated[str, typer.Option("--rest", metavar="URL", help="REST address of any node")] = "",
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            "--kafka", metavar="NAME=VALUE|@FILE", help="A setting of librdkafka, or a file of them for secrets"
        ),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--kafka-variable", metavar="NAME=VARIABLE", help="The variable with the value of a setting"),
    ] = None,
    rest_ca_file: Annotated[str, typer.Option(metavar="FILE", help="Authorities of the REST address (PEM)")] = "",
    rest_certificate_file: Annotated[str, typer.Option(metavar="FILE", help="Our key and certificate (PEM)")] = "",
    rest_token_file: Annotated[str, typer.Option(metavar="FILE", help="A file with a bearer token")] = "",
    rest_user: Annotated[str, typer.Option(metavar="NAME", help="User who logs in with a password")] = "",
    rest_password_file: Annotated[str, typer.Option(metavar="FILE", help="A file with the user's password")] = "",
    is_used: Annotated[bool, typer.Option("--use", help="Make it the current profile")] = False,
) -> None:
    """Add a profile, or replace the one of this name. Secrets stay in the files and variables that it names."""
    if _NAME.fullmatch(name) is None:
        raise typer.BadParameter(f"{name!r} is no name: letters, digits, dots, underscores and hyphens, at most 64")
    if not bootstrap and not rest:
        raise typer.BadParameter("a profile needs --bootstrap, --rest, or both")
    settings = settings_of([each for each in kafka or () if not each.startswith("@")], "--kafka")
    if secret := next(filter(is_secret, settings), ""):
        raise typer.BadParameter(
            f"{secret} is a secret, which no profile holds: put it into a file (--kafka @FILE) or a variable "
            f"(--kafka-variable {secret}=VARIABLE)"
        )
    named = settings_of(variables, "--kafka-variable")
    if wrong := next((each for each in named.values() if _VARIABLE.fullmatch(each) is None), ""):
        raise typer.BadParameter(f"{wrong!r} is no name of a variable", param_hint="--kafka-variable")
    profile = Profile(
        bootstrap=bootstrap,
        rest=rest if "://" in rest or not rest else f"http://{rest}",
        kafka=settings,
        kafka_files=[_absolute(each[1:]) for each in kafka or () if each.startswith("@")],
        kafka_variables=named,
        rest_ca_file=_absolute(rest_ca_file),
        rest_certificate_file=_absolute(rest_certificate_file),
        rest_token_file=_absolute(rest_token_file),
        rest_user=rest_user,
        rest_password_file=_absolute(rest_password_file),
    )
    _check_rest(profile)
    profiles = _profiles()
    profiles.put(name, profile)
    if is_used:
        profiles.use(name)
    sys.stdout.write(f"profile {name} is in {profiles.path}{', and is the current one' if is_used else ''}\n")


@profile_app.command("use")
def use(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Name of the profile; none: no profile is current")
    ] = "",
) -> None:
    """Make a profile the current one: commands use it where neither options nor variables say otherwise."""
    _profiles().use(name)
    sys.stdout.write(f"the current profile is {name or 'none'}\n")


@profile_app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """All profiles; a star marks the current one."""
    profiles = _profiles()
    current, found = profiles.current(), profiles.all()
    if as_json:
        rows = [{"name": name, "is_current": name == current, **one.to_json()} for name, one in sorted(found.items())]
        print_json(rows)
        return
    table = Table("", "profile", "bootstrap", "REST", box=None, pad_edge=False)
    for name, one in sorted(found.items()):
        add_row(
            table, "*" if name == current else "", name, printable(one.bootstrap) or "-", printable(one.rest) or "-"
        )
    print_table(table)


@profile_app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the profile [the current one]")] = "",
    as_json: AsJson = False,
) -> None:
    """One profile: its addresses, and which files and variables have its secrets."""
    profiles = _profiles()
    chosen = name or profiles.current()
    if not chosen:
        raise NoProfile("no profile is current: name one, or `bmq profile use NAME`")
    found = profiles.get(chosen)
    if as_json:
        print_json({"name": chosen, **found.to_json()})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    add_row(table, "name", chosen)
    for key, value in found.to_json().items():
        pairs = [f"{one}={two}" for one, two in value.items()] if isinstance(value, dict) else value
        add_row(table, key.replace("_", " "), printable(pairs if isinstance(pairs, str) else ", ".join(pairs)))
    print_table(table)


@profile_app.command("remove")
def remove(name: Name) -> None:
    """Remove a profile. Files that it names stay."""
    _profiles().remove(name)
    sys.stdout.write(f"profile {name} is removed\n")


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""


def _check_rest(profile: Profile) -> None:
    """Raises typer.BadParameter, LoginUnusable."""
    login = RestLogin(**profile.rest_options())
    login.check()
    if not profile.rest:
        if profile.rest_options():
            raise typer.BadParameter("a login at REST needs --rest")
        return
    try:
        RestClient(profile.rest, timeout=_TIMEOUT_S).close()
    except NoUrl as wrong:
        raise typer.BadParameter(f"--rest cannot be used: {wrong}") from None
