"""How a client of the REST API proves who it is: files that hold the secrets, named by options, variables or a file.

Options are stronger than `BMQ_REST_…` variables, and these than the TOML file of `BMQ_REST_CONFIG`. No secret is an argument
or a variable: others of the machine see a command line, and errors name files alone.
"""

from __future__ import annotations

import ssl
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError

SECRET_BYTES_MAX: Final = 16 * 1024
FILE_BYTES_MAX: Final = 64 * 1024
PREFIX: Final = "BMQ_REST_"
CONFIG: Final = "config"
CONFIG_VARIABLE: Final = f"{PREFIX}CONFIG"
_BY_OTHERS: Final = stat.S_IRWXO


class LoginUnusable(BmqError):
    """A file of the login cannot be used, or parts of it do not fit; one sentence without a secret."""


@dataclass(frozen=True, slots=True)
class RestLogin:
    """Names of files, all of them empty: no login, and the authorities that this machine trusts.

    `ca_file`: PEM, the authorities that the server's certificate is trusted by. `certificate_file`: PEM, our private key and
    certificate. `token_file`: a bearer token in its first line. `user`, `password_file`: the password in its first line.
    """

    ca_file: str = ""
    certificate_file: str = ""
    token_file: str = ""
    user: str = ""
    password_file: str = ""

    def check(self) -> None:
        """Raises LoginUnusable."""
        if bool(self.user) != bool(self.password_file):
            raise LoginUnusable("a REST login by password needs both a user and a password file")
        if self.user and self.token_file:
            raise LoginUnusable("a REST login is by a token or by a user's password, not by both")
        if ":" in self.user:
            raise LoginUnusable("a user with a colon in the name cannot log in at REST by a password")

    @property
    def has_credentials(self) -> bool:
        return bool(self.user or self.token_file)

    def token(self) -> str:
        """Read at each request, so that a new one counts at once. Raises LoginUnusable."""
        token = first_line(self.token_file)
        if not token.isascii() or not token.isprintable() or " " in token:
            raise LoginUnusable(f"{self.token_file} has no bearer token in its first line")
        return token

    def password(self) -> str:
        """Raises LoginUnusable."""
        return first_line(self.password_file)

    def context(self) -> ssl.SSLContext | None:
        """None: the default one. Raises LoginUnusable."""
        if not self.ca_file and not self.certificate_file:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except (OSError, ValueError) as error:
            raise LoginUnusable(f"the CA file {self.ca_file} cannot be used: {_reason(error)}") from None
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate_file:
            _require_private(self.certificate_file)
            try:
                # The function keeps OpenSSL from asking on the terminal.
                context.load_cert_chain(self.certificate_file, password=lambda: "")
            except (OSError, ValueError) as error:
                raise LoginUnusable(
                    f"{self.certificate_file} cannot be used as private key and certificate: {_reason(error)}"
                ) from None
        return context


NAMES: Final = tuple(field.name for field in fields(RestLogin))


def login_of(options: Mapping[str, str | None], variables: Mapping[str, str]) -> RestLogin:
    """`options`: by the names of RestLogin's fields, and `config` for the TOML file; None or absent: not given.

    Raises LoginUnusable.
    """
    file = options.get(CONFIG) or variables.get(CONFIG_VARIABLE, "")
    found = _of_file(file) if file else {}
    given = {name: variables.get(PREFIX + name.upper(), "") for name in NAMES}
    _overlay(found, given)
    _overlay(found, {name: options.get(name) or "" for name in NAMES})
    login = RestLogin(**found)
    login.check()
    return login


def first_line(path: str) -> str:
    """The first line of a file that only its owner and group may use. Raises LoginUnusable."""
    _require_private(path)
    try:
        with Path(path).open("rb") as file:
            line = file.read(SECRET_BYTES_MAX).partition(b"\n")[0].rstrip(b"\r").decode()
    except OSError as error:
        raise LoginUnusable(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LoginUnusable(f"{path} is not UTF-8") from None
    if not line:
        raise LoginUnusable(f"{path} begins with an empty line")
    return line


def _overlay(found: dict[str, str], stronger: Mapping[str, str]) -> None:
    """A stronger way to log in replaces the weaker one as a whole: a token does not stand beside a password."""
    if stronger["token_file"] or stronger["user"]:
        for name in ("token_file", "user", "password_file"):
            found.pop(name, None)
    found.update({name: value for name, value in stronger.items() if value})


def _of_file(path: str) -> dict[str, str]:
    try:
        with Path(path).open("rb") as file:
            values = tomllib.loads(file.read(FILE_BYTES_MAX).decode())
    except OSError as error:
        raise LoginUnusable(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise LoginUnusable(f"{path} is no TOML") from None
    unknown = sorted(set(values) - set(NAMES))
    if unknown:
        raise LoginUnusable(f"{path} has {unknown[0][:40]!r}, and may have {', '.join(NAMES)}")
    wrong = sorted(name for name, value in values.items() if not isinstance(value, str))
    if wrong:
        raise LoginUnusable(f"{path}: {wrong[0]} has to be a text")
    return dict(values)


def _require_private(path: str) -> None:
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        raise LoginUnusable(f"{path} cannot be read: {error.strerror}") from None
    if stat.S_ISREG(mode) and mode & _BY_OTHERS:
        raise LoginUnusable(f"{path} holds a secret and is open to every user of this machine: chmod o= {path}")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "it is no PEM file"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
