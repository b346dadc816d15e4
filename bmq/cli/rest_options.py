"""The options of commands that ask a cluster's REST API: its address, and how to log in there.

`with_login` adds the login's options to a command that has `--rest`; clients that the command makes log in by them.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Final, TypeVar

import typer

from bmq.cli.profiles import rest_login_options
from bmq.rest_client.login import CONFIG, CONFIG_VARIABLE, PREFIX, RestLogin, login_of

DEFAULT_URL: Final = "http://127.0.0.1:8080"

Rest = Annotated[
    str, typer.Option("--rest", envvar="BMQ_REST_URL", metavar="URL", help="REST address of any node of the cluster")
]

_PANEL: Final = "Login at the REST address"
_HELP: Final = {
    "ca_file": "Authorities that the node's certificate is trusted by (PEM) [those of this machine]",
    "certificate_file": "Our private key and certificate (PEM)",
    "token_file": "A file with a bearer token in its first line",
    "user": "User who logs in with a password",
    "password_file": "A file with the user's password in its first line",
}
_LOGIN: Final[ContextVar[RestLogin]] = ContextVar("bmq-rest-login", default=RestLogin())  # noqa: B039  # it is frozen

Command = TypeVar("Command", bound=Callable[..., Any])


def current_login() -> RestLogin:
    """The login that the command's options give."""
    return _LOGIN.get()


def with_login(command: Command) -> Command:
    """The command with the options of a login behind its own. Raises LoginUnusable when it is run."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(_parameter(name)) for name in (*_HELP, CONFIG)}
        of_profile, variables = rest_login_options(options.get("rest"), os.environ)
        if of_profile and any(given.values()):
            of_profile, variables = {}, os.environ
        reset = _LOGIN.set(login_of({**of_profile, **{key: one for key, one in given.items() if one}}, variables))
        try:
            return command(*arguments, **options)
        finally:
            _LOGIN.reset(reset)

    added = [
        inspect.Parameter(_parameter(name), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name))
        for name in (*_HELP, CONFIG)
    ]
    signature = inspect.signature(
        command, eval_str=True
    )  # typer reads the annotations of a given signature as they are
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **{one.name: one.annotation for one in added}}
    return run  # type: ignore[return-value]


def _parameter(name: str) -> str:
    return f"rest_{name}"


def _option(name: str) -> Any:
    if name == CONFIG:
        help_text, metavar, variable = "A TOML file of these options", "FILE", CONFIG_VARIABLE
    else:
        help_text, metavar = _HELP[name], "NAME" if name == "user" else "FILE"
        variable = f"{PREFIX}{name.upper()}"
    # Not typer's envvar: a variable is weaker than the file that an option names only in part (login_of).
    return Annotated[
        str | None,
        typer.Option(
            f"--rest-{name.replace('_', '-')}",
            metavar=metavar,
            help=f"{help_text} [{variable}]",
            rich_help_panel=_PANEL,
        ),
    ]
