"""Named connections to clusters in a file of the user's, and the one that is in force for this command.

A profile has addresses, settings that are no secret, and references to secrets: names of files and of variables. A login goes
only to the profile's own address. Options are stronger than a profile that `--profile` names, that is stronger than the
variables BMQ_BOOTSTRAP and BMQ_REST_URL, and they are stronger than the current profile.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError

PROFILE_VARIABLE: Final = "BMQ_PROFILE"
FILE_VARIABLE: Final = "BMQ_PROFILES"
BOOTSTRAP_VARIABLE: Final = "BMQ_BOOTSTRAP"
REST_VARIABLE: Final = "BMQ_REST_URL"
FILE_BYTES_MAX: Final = 1 << 20
PROFILES_MAX: Final = 1_000
_FORMAT: Final = 1
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class ProfilesUnusable(BmqError):
    """The file of profiles cannot be used; one sentence."""


class NoProfile(BmqError):
    """There is no profile of that name."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Empty: not given. `kafka`: librdkafka's settings, no secrets. `kafka_files`: files of more. `kafka_variables`: the
    variable that has a setting's value. `rest_*`: as the options of a login are called.
    """

    bootstrap: str = ""
    rest: str = ""
    kafka: dict[str, str] = field(default_factory=dict)
    kafka_files: list[str] = field(default_factory=list)
    kafka_variables: dict[str, str] = field(default_factory=dict)
    rest_ca_file: str = ""
    rest_certificate_file: str = ""
    rest_token_file: str = ""
    rest_user: str = ""
    rest_password_file: str = ""

    @classmethod
    def of(cls, document: object) -> Profile:
        """Raises ValueError."""
        if not isinstance(document, dict):
            raise ValueError("a profile is no table")
        known = {one.name: one for one in fields(cls)}
        if unknown := sorted(set(document) - set(known)):
            raise ValueError(f"it has {unknown[0][:40]!r}, which this release does not know")
        for name, value in document.items():
            kind: type = list if name == "kafka_files" else dict if name in ("kafka", "kafka_variables") else str
            texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            if not isinstance(value, kind) or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{name} has another form")
        return cls(**document)

    def to_json(self) -> dict[str, Any]:
        """Without what is not given. There is no secret in it."""
        return {name: value for name, value in asdict(self).items() if value}

    def rest_options(self) -> dict[str, str]:
        """By the names of RestLogin's fields, without empty ones."""
        names = ("ca_file", "certificate_file", "token_file", "user", "password_file")
        return {name: value for name in names if (value := getattr(self, f"rest_{name}"))}


@dataclass(frozen=True, slots=True)
class InForce:
    """`is_named`: `--profile` or BMQ_PROFILE names it; else it is the current one."""

    name: str
    profile: Profile
    is_named: bool


_IN_FORCE: Final[ContextVar[InForce | None]] = ContextVar("bmq-profile", default=None)


class Profiles:
    """The file. Each method reads it anew. Raises ProfilesUnusable."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> dict[str, Profile]:
        return self._read()[1]

    def current(self) -> str:
        """The name of the current profile, which may be gone; empty: none."""
        return self._read()[0]

    def get(self, name: str) -> Profile:
        """Raises NoProfile."""
        found = self.all()
        if name not in found:
            there = f"there are {', '.join(sorted(found)[:20])}" if found else "`bmq profile add` makes one"
            raise NoProfile(f"there is no profile {name!r} in {self.path}; {there}")
        return found[name]

    def put(self, name: str, profile: Profile) -> None:
        current, found = self._read()
        if name not in found and len(found) >= PROFILES_MAX:
            raise ProfilesUnusable(f"{self.path} has {PROFILES_MAX} profiles already")
        self._write(current, {**found, name: profile})

    def use(self, name: str) -> None:
        """Make it the current one; empty: none is. Raises NoProfile."""
        if name:
            self.get(name)
        self._write(name, self.all())

    def remove(self, name: str) -> None:
        """Raises NoProfile."""
        self.get(name)
        current, found = self._read()
        del found[name]
        self._write("" if current == name else current, found)

    def _read(self) -> tuple[str, dict[str, Profile]]:
        try:
            with self.path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                data = file.read(FILE_BYTES_MAX + 1)
        except FileNotFoundError:
            return "", {}
        except OSError as error:
            raise ProfilesUnusable(f"{self.path} cannot be read: {error.strerror}") from None
        if mode & _WRITABLE_BY_OTHERS:
            raise ProfilesUnusable(f"{self.path} may be written by other users of this machine: chmod 600 {self.path}")
        try:
            document = json.loads(data)
            if len(data) > FILE_BYTES_MAX or document["format"] != _FORMAT:
                raise ValueError("it is too long, or of another release")
            profiles = {str(name): Profile.of(one) for name, one in document["profiles"].items()}
            return str(document["current"]), profiles
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ProfilesUnusable(f"{self.path} is no file of profiles ({error}); repair it, or remove it") from None

    def _write(self, current: str, profiles: Mapping[str, Profile]) -> None:
        import tempfile  # late: a server's start imports this module

        document = {
            "format": _FORMAT,
            "current": current,
            "profiles": {name: profiles[name].to_json() for name in sorted(profiles)},
        }
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # mkstemp makes files that only their owner uses.
            descriptor, made = tempfile.mkstemp(dir=self.path.parent, prefix=".profiles-")
            try:
                with os.fdopen(descriptor, "w") as file:
                    json.dump(document, file, indent=2)
                    file.flush()
                    os.fsync(file.fileno())
                Path(made).replace(self.path)
            except BaseException:
                Path(made).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise ProfilesUnusable(f"{self.path} cannot be written: {error.strerror}") from None


def profiles_file(variables: Mapping[str, str]) -> Path:
    """`BMQ_PROFILES`, else below XDG_CONFIG_HOME, else below ~/.config (XDG Base Directory Specification)."""
    if given := variables.get(FILE_VARIABLE):
        return Path(given)
    home = variables.get("XDG_CONFIG_HOME", "")
    base = Path(home) if home.startswith("/") else Path(variables.get("HOME") or "~").expanduser() / ".config"
    return base / "bmq" / "profiles.json"


def in_force() -> InForce | None:
    return _IN_FORCE.get()


def put_in_force(name: str) -> Callable[[], None]:
    """Let this command use the profile; empty: the current one, if there is one. Returns what takes it back.

    Its addresses become the variables that options have their defaults from. Raises NoProfile, ProfilesUnusable.
    """
    profiles = Profiles(profiles_file(os.environ))
    chosen = name or profiles.current()
    if not chosen:
        return lambda: None
    found = InForce(chosen, profiles.get(chosen), is_named=bool(name))
    token = _IN_FORCE.set(found)
    before = {variable: os.environ.get(variable) for variable in (BOOTSTRAP_VARIABLE, REST_VARIABLE)}
    for variable, address in ((BOOTSTRAP_VARIABLE, found.profile.bootstrap), (REST_VARIABLE, found.profile.rest)):
        if address and (found.is_named or variable not in os.environ):
            os.environ[variable] = address

    def take_back() -> None:
        _IN_FORCE.reset(token)
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value

    return take_back


def rest_login_options(url: object, variables: Mapping[str, str]) -> tuple[dict[str, str], Mapping[str, str]]:
    """The profile's login for the REST address `url` alone, and the variables that may add to it."""
    found = in_force()
    has_login = any(name.startswith("BMQ_REST_") and name != REST_VARIABLE for name in variables)
    if found is None or not url or url != found.profile.rest or (has_login and not found.is_named):
        return {}, variables
    options = found.profile.rest_options()
    return options, {} if options else variables


def kafka_settings_for(bootstrap: str) -> dict[str, str]:
    """The profile's settings of librdkafka for `bootstrap` alone, with values of variables. Raises ProfilesUnusable."""
    found = in_force()
    if found is None or bootstrap != found.profile.bootstrap:
        return {}
    settings = dict(found.profile.kafka)
    for setting, variable in found.profile.kafka_variables.items():
        if variable not in os.environ:
            raise ProfilesUnusable(
                f"profile {found.name} has the value of {setting} in the variable {variable}, which is not set"
            )
        settings[setting] = os.environ[variable]
    return settings
