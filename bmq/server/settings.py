"""Settings of a server and where each came from: command line, then `BMQ_…` variables, then a TOML file, then defaults.

Nested settings use a table in TOML and two underscores in a variable: `[proxy] connections_max = 500` is the same as
`BMQ_PROXY__CONNECTIONS_MAX=500`. Each table is the settings class of one package.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from bmq.admin.drivers.settings import ScaleSettings
from bmq.admin.index_queries import IndexServiceSettings
from bmq.admin.metrics_settings import MetricsSettings
from bmq.admin.rest.security_settings import RestSecuritySettings
from bmq.broker.context import BrokerSettings
from bmq.dataclass import dataclass
from bmq.election.zookeeper_security import ZooKeeperSecurity
from bmq.hdfs.config import HdfsSettings
from bmq.hdfs.location import is_hdfs
from bmq.membership.settings import ClusterSettings
from bmq.metadata.image import ALL_ROLES, ROLE_PROXY
from bmq.protocol.errors import BmqError
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.stall_watch import LOOP_STALL_MAX_MS
from bmq.proxy.telemetry_settings import TelemetrySettings
from bmq.routing.settings import RouterSettings
from bmq.security.internode import InternodeSecurity
from bmq.security.listeners import listeners_of
from bmq.server.half_check_settings import HalfCheckSettings
from bmq.server.kafka_names import own_settings, why_not_here
from bmq.server.listener_settings import is_secret
from bmq.server.machine_memory import CACHE_SHARE, cache_bytes, memory_bytes
from bmq.server.renamed_settings import with_present_names
from bmq.server.setting_checks import not_advertised, ports_in_conflict, wrong_advertised, wrong_value
from bmq.server.tracing_settings import TracingSettings

DEFAULT_FILE: Final = Path("bmq.toml")
FILE_VARIABLE: Final = "BMQ_CONFIG"


UNKNOWN: Final = ("unexpected_keyword_argument", "extra_forbidden")
"""Pydantic's types of error for a name that is not there, of a dataclass and of a model."""


class BadSettings(BmqError):
    """A setting is unusable; the message names it, its value and its source."""


def _host_and_port(value: str) -> str:
    host, separator, port = value.rpartition(":")
    if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT")
    return value


Address = Annotated[str, AfterValidator(_host_and_port)]


def _reachable(value: str) -> str:
    if value and (why := wrong_advertised(value)) is not None:
        raise ValueError(why)
    return value


Advertised = Annotated[str, AfterValidator(_reachable)]


def _known_roles(value: str) -> str:
    unknown = sorted(split_roles(value) - ALL_ROLES)
    if unknown or not split_roles(value):
        raise ValueError(f"{', '.join(unknown) or 'nothing'} is no role: {', '.join(sorted(ALL_ROLES))} are")
    return value


def split_roles(value: str) -> frozenset[str]:
    """Splits "proxy,broker" into {"proxy", "broker"}."""
    return frozenset(role for role in (part.strip() for part in value.split(",")) if role)


Roles = Annotated[str, AfterValidator(_known_roles)]


def split_address(address: str) -> tuple[str, int]:
    """("127.0.0.1", 9092) of "127.0.0.1:9092"; brackets of an IPv6 host are taken off."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Settings(BaseSettings):
    """All settings of `bmq standalone` and `bmq node`."""

    model_config = SettingsConfigDict(
        env_prefix="BMQ_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        coerce_numbers_to_str=True,  # [kafka] "num.partitions" = 3
    )

    listen: Address = "127.0.0.1:9092"
    """Address for Kafka clients; port 0 takes a free one."""
    advertised: Advertised = ""
    """Address clients are told to use (HOST:PORT); empty: the one listened on (not `0.0.0.0` or `::`)."""
    rest: Address = "127.0.0.1:8080"
    """Address of the REST API and of `/metrics`."""
    data: Path = Path("data")
    """Directory of the embedded store."""
    store: str = ""
    """Where the log is: `file:DIR` or `hdfs://NAMENODE:PORT[,NAMENODE:PORT]/DIR`; empty: the embedded store in `data`."""
    cluster_id: str = ""
    """Refuse a store that belongs to another cluster; empty: any."""
    node_id: int = Field(1, ge=0, le=2**31 - 1)
    """This node's id; keep it stable for its address."""
    rack: str | None = None
    """Rack or zone of this node."""
    roles: Roles = "proxy,broker,coordinator,controller"
    """`bmq node`: what this node does."""
    workers: int = Field(0, ge=0, le=64)
    """`bmq node`: number of processes under a supervisor; `0`: this process is the node."""
    worker_hang_ms: int = Field(2_000, ge=500)
    """A worker whose event loop does not run for this time is killed and started again."""
    loop_hang_max_ms: int = Field(10_000, ge=0)
    """`bmq node` without workers: a process whose event loop hangs for this time ends; `0`: it stays."""
    internal: Address = "127.0.0.1:9093"
    """`bmq node`: address for other nodes."""
    internal_advertised: Advertised = ""
    """`bmq node`: address other nodes are told to use; empty: the one listened on, as with `advertised`."""
    rest_advertised: Advertised = ""
    """`bmq node`: REST address of this node as active controller; empty: `rest`, as with `advertised`."""
    zookeeper: str = ""
    """`bmq node`: ZooKeeper of the cluster, `HOST:PORT[,HOST:PORT][/CHROOT]`."""
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$")
    """`debug`, `info`, `warning` or `error`."""
    log_format: str = Field("auto", pattern="^(auto|text|json)$")
    """`text`, `json`, or `auto`: text on a terminal, otherwise one JSON object a line."""
    scheduling: str = Field("auto", pattern="^(auto|batch|normal)$")
    """`batch`, `normal`, or `auto`: `batch` when the store is HDFS."""
    start_wait_ms: int = Field(60_000, ge=0)
    """How long a start waits for a store that does not answer, before it ends with one sentence."""
    loop_stall_max_ms: int = Field(LOOP_STALL_MAX_MS, ge=100)
    """After a longer stall of its event loop a process drops its connections before it reads from them."""
    stop_timeout_ms: int = Field(5_000, ge=0)
    """How long a clean stop after SIGTERM may take."""
    kafka: dict[str, str] = Field(default_factory=dict)
    """Broker configs under Kafka's own names, as text: `[kafka]` `"num.partitions" = "3"`."""
    proxy: ProxyLimits = ProxyLimits()
    fetch: FetchSettings = FetchSettings()
    router: RouterSettings = RouterSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    tracing: TracingSettings = TracingSettings()
    metrics: MetricsSettings = MetricsSettings()
    half_checks: HalfCheckSettings = HalfCheckSettings()
    broker: BrokerSettings = BrokerSettings()
    hdfs: HdfsSettings = HdfsSettings()
    zookeeper_security: ZooKeeperSecurity = ZooKeeperSecurity()
    internode_security: InternodeSecurity = InternodeSecurity()
    rest_security: RestSecuritySettings = RestSecuritySettings()
    index_service: IndexServiceSettings = IndexServiceSettings()
    cluster: ClusterSettings = ClusterSettings()
    scale: ScaleSettings = ScaleSettings.model_validate({})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # load_settings has merged the other sources already


@dataclass(frozen=True, slots=True)
class Origin:
    """An effective setting, its dotted name, and where it came from."""

    name: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """`old_names`: settings given under the names of the last release (renamed_settings.py)."""

    settings: Settings
    origins: tuple[Origin, ...]
    old_names: tuple[str, ...] = ()


def load_settings(command_line: dict[str, Any], file: Path | None) -> LoadedSettings:
    """Effective settings. `command_line` holds only what was given there. Raises BadSettings with one sentence."""
    path = file or (Path(os.environ[FILE_VARIABLE]) if FILE_VARIABLE in os.environ else None)
    if path is None and DEFAULT_FILE.exists():
        path = DEFAULT_FILE
    environment = EnvSettingsSource(Settings)
    layers: list[tuple[str, dict[str, Any]]] = [
        ("command line", InitSettingsSource(Settings, command_line)()),
        ("environment", _read_environment(environment)),
        (f"file {path}", _read_file(path)),
    ]
    old_names: set[str] = set()
    for place, (source, layer) in enumerate(layers):
        layers[place] = source, (renamed := with_present_names(layer))[0]
        old_names.update(renamed[1])
    merged: dict[str, Any] = {}
    for _, layer in reversed(layers):
        merged = _merge(merged, layer)
    kafka = merged.get("kafka")
    if isinstance(kafka, dict):
        if (why := why_not_here(kafka)) is not None:
            raise BadSettings(why)
        # Behind the settings' own names, which say it more clearly; and in front of the defaults.
        layers.append(("broker config of the same meaning", own_settings(kafka)))
        merged = _merge(own_settings(kafka), merged)
    if is_hdfs(str(merged.get("store", ""))):
        # A store in local files already has the page cache.
        share_bytes = cache_bytes(memory_bytes())
        share = {
            "fetch": {"read_cache_bytes_max": share_bytes},
            "broker": {"tail_cache_bytes_max": share_bytes},
        }
        layers.append((f"default, 1/{CACHE_SHARE} of the memory", share))
        merged = _merge(share, merged)
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise BadSettings(_sentence(error, layers)) from error
    origins = tuple(_origins(settings.model_dump(), layers))
    if (wrong := wrong_value({origin.name: origin.value for origin in origins})) is not None:
        origin = next(origin for origin in origins if origin.name == wrong[0])
        raise BadSettings(f"setting {origin.name} = {origin.value!r} (from the {origin.source}): {wrong[1]}")
    if why_impossible := settings.cluster.why_impossible():
        raise BadSettings(f"setting {why_impossible}")
    return LoadedSettings(settings, origins, tuple(sorted(old_names)))


def require_usable_addresses(settings: Settings, *, is_node: bool) -> None:
    """Refuse addresses that a server cannot use: unreachable ones, or two listeners on one port.

    `is_node`: there is a listener for other nodes, and the REST API redirects. Raises BadSettings.
    """
    listeners = {"rest": settings.rest}
    advertised = {}
    has_clients = not is_node or ROLE_PROXY in split_roles(settings.roles)
    if has_clients and not settings.kafka.get("listeners", "").strip():
        listeners["listen"] = settings.listen
        advertised["listen"] = settings.advertised, "advertised"
    if is_node:
        listeners["internal"] = settings.internal
        advertised["internal"] = settings.internal_advertised, "internal_advertised"
        advertised["rest"] = settings.rest_advertised, "rest_advertised"
    for name, (address, setting) in advertised.items():
        if (why := not_advertised(name, listeners[name], address, setting)) is not None:
            raise BadSettings(why)
    if (why := ports_in_conflict(listeners, max(1, settings.workers) if is_node else 1)) is not None:
        raise BadSettings(why)
    try:
        told = split_address(settings.advertised) if settings.advertised else None
        listeners_of(settings.kafka, split_address(settings.listen), told)
    except ValueError as error:
        raise BadSettings(f"setting kafka: {error}") from None
    acks = settings.kafka.get("min.insync.replicas", "1")
    if (
        is_hdfs(settings.store)
        and acks.isdigit()
        and int(acks) > 1
        and int(acks) > (files_have := _replication(settings))
    ):
        raise BadSettings(
            f"setting kafka.min.insync.replicas = {acks!r}: files have hdfs.replication = {files_have} "
            "replicas, so no produce with acks=all could succeed"
        )


def _replication(settings: Settings) -> int:
    """How many DataNodes a segment is written to, by the settings or Hadoop's configuration. Raises BadSettings."""
    if settings.hdfs.replication is not None:
        return settings.hdfs.replication
    from bmq.hdfs.hadoop_site import hadoop_properties
    from bmq.hdfs.nameservices import BadNameservice, replication_of
    from bmq.hdfs.security import BadSecurity

    try:
        return replication_of(hadoop_properties(os.environ))
    except (BadNameservice, BadSecurity) as error:
        raise BadSettings(f"HADOOP_CONF_DIR: {error}") from None


def _read_environment(source: EnvSettingsSource) -> dict[str, Any]:
    try:
        return source()
    except Exception as error:
        raise BadSettings(f"a BMQ_ environment variable cannot be read: {error}") from error


def _read_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    if not path.is_file():
        raise BadSettings(f"the settings file {path} does not exist or is not a file")
    try:
        return TomlConfigSettingsSource(Settings, toml_file=path)()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise BadSettings(f"the settings file {path} cannot be read: {error}") from error


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _source_of(name: str, layers: list[tuple[str, dict[str, Any]]]) -> str:
    for source, layer in layers:
        value: Any = layer
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                break
            value = value[part]
        else:
            return source
    return "default"


def _origins(values: dict[str, Any], layers: list[tuple[str, dict[str, Any]]], prefix: str = "") -> list[Origin]:
    found: list[Origin] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _origins(value, layers, f"{prefix}{name}.")
        else:
            found.append(Origin(prefix + name, value, _source_of(prefix + name, layers)))
    return found


def _sentence(error: ValidationError, layers: list[tuple[str, dict[str, Any]]]) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] in UNKNOWN:
        return f"setting {name} (from the {_source_of(name, layers)}) is not one of this release"
    if is_secret(name):
        return f"setting {name} (from the {_source_of(name, layers)}): {first['msg']}"
    return f"setting {name} = {first['input']!r} (from the {_source_of(name, layers)}): {first['msg']}"
