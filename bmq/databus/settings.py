"""Settings of an agent: a TOML file, under variables `BMQ_DATABUS_…`. docs/DATABUS.md lists them."""

from __future__ import annotations

import os
import socket
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bmq.channels.channel import sentence_of
from bmq.protocol.errors import BmqError
from bmq.rest_client.login import LoginUnusable, RestLogin

PREFIX: Final = "BMQ_DATABUS_"
FILE_BYTES_MAX: Final = 1 << 20
SEGMENT_BYTES_MAX: Final = 8 << 20
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_ID: Final = r"^[a-zA-Z0-9._-]{1,100}$"
_SECRET_WORDS: Final = ("password", "secret", "key", "token", "jaas", "oauthbearer.config")


class SettingsUnusable(BmqError):
    """A setting is wrong; one sentence without its value."""


class AgentSettings(BaseModel):
    """Each field's description is its line in docs/DATABUS.md."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent_id: Annotated[str, Field(pattern=_ID, description="name of the agent, one for each host")] = ""
    bootstrap: Annotated[str, Field(min_length=1, description="servers of the cluster")] = "127.0.0.1:9092"
    kafka: Annotated[dict[str, str | int | bool], Field(description="settings of librdkafka: SASL and TLS")] = {}
    rest: Annotated[list[str], Field(min_length=1, max_length=100, description="REST addresses of nodes")] = [
        "http://127.0.0.1:8080"
    ]
    rest_ca_file: Annotated[str, Field(description="authorities that the nodes' certificates are trusted by")] = ""
    rest_certificate_file: Annotated[str, Field(description="private key and certificate for REST")] = ""
    rest_token_file: Annotated[str, Field(description="a file with a bearer token for REST")] = ""
    rest_user: Annotated[str, Field(description="a user who logs in at REST with a password")] = ""
    rest_password_file: Annotated[str, Field(description="a file with that password")] = ""
    spool_dir: Annotated[str, Field(min_length=1, description="directory of the spool")] = "/var/lib/bmq-databus"
    spool_bytes_max: Annotated[int, Field(ge=1 << 20, description="bytes of all spools together")] = 1 << 30
    fsync: Annotated[bool, Field(description="whether a record is on the disk before it is answered")] = False
    socket: Annotated[str, Field(description="path of the Unix socket; empty: none")] = "/run/bmq-databus/databus.sock"
    socket_mode: Annotated[str, Field(pattern="^0?[0-7]{3}$", description="its mode, in octal")] = "0660"
    socket_owner: Annotated[str, Field(description="its owner; empty: the agent's user")] = ""
    socket_group: Annotated[str, Field(description="its group; empty: the agent's")] = ""
    http: Annotated[str, Field(description="`HOST:PORT` or `unix:PATH` of the HTTP door; empty: none")] = (
        "127.0.0.1:8090"
    )
    http_token_file: Annotated[str, Field(description="a file with the bearer token that HTTP demands")] = ""
    grpc: Annotated[str, Field(description="`HOST:PORT` or `unix:PATH` of the gRPC door; empty: none")] = ""
    grpc_token_file: Annotated[str, Field(description="a file with the bearer token that gRPC demands")] = ""
    grpc_calls_max: Annotated[int, Field(ge=1, le=100_000, description="open calls of the gRPC door")] = 128
    grpc_idle_timeout_s: Annotated[
        float, Field(gt=0, le=86_400, description="time without a whole request until a gRPC stream is ended")
    ] = 300.0
    frame_bytes_max: Annotated[
        int, Field(ge=1_024, le=16 << 20, description="longest frame of the socket, body by HTTP, request by gRPC")
    ] = 2 << 20
    frame_timeout_s: Annotated[
        float, Field(gt=0, le=3_600, description="time for the rest of a frame, body or request")
    ] = 30.0
    connections_max: Annotated[int, Field(ge=1, le=1_000_000, description="connections of the socket")] = 10_000
    memory_bytes_max: Annotated[int, Field(ge=1 << 20, description="bytes of frames that are not whole")] = 64 << 20
    stop_wait_s: Annotated[float, Field(ge=0, le=600, description="time to produce the rest when it stops")] = 5.0
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$", description="what is logged")] = "info"

    @property
    def segment_bytes(self) -> int:
        """The size of a file of the spool: room is made by deleting whole files."""
        return min(SEGMENT_BYTES_MAX, self.spool_bytes_max // 8)

    @property
    def login(self) -> RestLogin:
        return RestLogin(
            self.rest_ca_file, self.rest_certificate_file, self.rest_token_file, self.rest_user, self.rest_password_file
        )

    @property
    def kafka_config(self) -> dict[str, Any]:
        return {**self.kafka, "bootstrap.servers": self.bootstrap}


def load_settings(path: Path | None, variables: Mapping[str, str], options: Mapping[str, object]) -> AgentSettings:
    """`options` are stronger than `variables`, and these than the file. Raises SettingsUnusable."""
    found: dict[str, Any] = {} if path is None else _of_file(path)
    for name in AgentSettings.model_fields:
        text = variables.get(f"{PREFIX}{name.upper()}")
        if text is not None:
            found[name] = _of_variable(name, text)
    found.update({name: value for name, value in options.items() if value is not None})
    found.setdefault("agent_id", socket.gethostname())
    try:
        settings = AgentSettings.model_validate(found)
    except ValidationError as error:
        sentence = sentence_of(error.errors(include_url=False, include_context=False, include_input=False))
        raise SettingsUnusable(f"the agent's settings: {sentence}") from None
    _check(settings)
    return settings


def is_loopback(address: str) -> bool:
    return address.rpartition(":")[0].strip("[]") in _LOOPBACK


def _check(settings: AgentSettings) -> None:
    try:
        settings.login.check()
    except LoginUnusable as error:
        raise SettingsUnusable(str(error)) from None
    if not settings.socket and not settings.http and not settings.grpc:
        raise SettingsUnusable("the agent has no door: set socket, http or grpc")
    _check_door("http", settings.http, settings.http_token_file)
    _check_door("grpc", settings.grpc, settings.grpc_token_file)


def _check_door(name: str, address: str, token_file: str) -> None:
    if not address or address.startswith("unix:"):
        return
    port = address.rpartition(":")[2]
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise SettingsUnusable(f"{name}: HOST:PORT or unix:PATH is wanted")
    if not is_loopback(address) and not token_file:
        raise SettingsUnusable(f"{name} is open to other machines: set {name}_token_file, or use 127.0.0.1")


def _of_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(FILE_BYTES_MAX)
    except OSError as error:
        raise SettingsUnusable(f"{path} cannot be read: {error.strerror}") from None
    try:
        found = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise SettingsUnusable(f"{path} is no TOML") from None
    kafka = found.get("kafka")
    has_secret = isinstance(kafka, dict) and any(word in name for name in kafka for word in _SECRET_WORDS)
    if has_secret and stat.S_ISREG(mode) and mode & stat.S_IRWXO:
        raise SettingsUnusable(f"{path} holds a secret and is open to every user of this machine: chmod o= {path}")
    return found


def _of_variable(name: str, text: str) -> object:
    """Lists have commas between, `kafka` has NAME=VALUE on each line."""
    if name == "rest":
        return [part.strip() for part in text.split(",") if part.strip()]
    if name == "kafka":
        return dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
    return text
