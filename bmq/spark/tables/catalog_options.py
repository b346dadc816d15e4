"""Options of the catalog of a job's tables: which types of catalog a job writes into, and what each needs. Decisions only.

A job commits rows and offsets together, and nothing in between may be lost. So the catalog has to refuse a commit that was made on
metadata which is not the present one. Catalogs that are not known to do so are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from bmq.spark.tables.errors import TableMismatch

TYPE: Final = "type"
URI: Final = "uri"
WAREHOUSE: Final = "warehouse"
DIRECTORIES: Final = "hadoop"
"""The type without a service: tables are directories."""
METASTORE: Final = "hive"
REST: Final = "rest"
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        DIRECTORIES: (WAREHOUSE,),
        METASTORE: (URI, WAREHOUSE),
        REST: (URI,),
        "glue": (WAREHOUSE,),
        "jdbc": (URI, WAREHOUSE),
        "nessie": (URI, WAREHOUSE),
    }
)
_LOCK_OPTION: Final = "hadoop.iceberg.engine.hive.lock-enabled"
_LOCK_PROPERTY: Final = "engine.hive.lock-enabled"
_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({METASTORE: ("thrift",), REST: ("http", "https")})
_OBJECT_STORES: Final = frozenset({"cosn", "gs", "obs", "oss", "s3", "s3a", "s3n", "swift", "wasb", "wasbs"})
"""Their renames replace what is there, or are no single step."""
_ADDED: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        # Without the timeouts a service that takes connections and says nothing would hold a job for ever.
        REST: {"rest.client.connection-timeout-ms": "10000", "rest.client.socket-timeout-ms": "60000"},
        # The lock wins over a setting of Spark's own.
        METASTORE: {"hadoop.hive.metastore.client.socket.timeout": "60s", _LOCK_OPTION: "true"},
    }
)
_SECRET_WORDS: Final = ("credential", "key", "password", "secret", "token")
REDACTED: Final = r"(?i)secret|password|token|access[.]?key|credential"
"""Spark's own expression for settings that it does not show, and that of a REST catalog's login."""


def checked_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options with bounds for waits, and Hive's lock, added. Raises TableMismatch: one sentence, without values that may be secrets."""
    if "catalog-impl" in options:
        raise TableMismatch(
            f"a catalog by its class ({options['catalog-impl']}) is not known to refuse commits on old metadata: name its type, "
            f"one of {', '.join(_NEEDED)}"
        )
    kind = options.get(TYPE, "").lower()
    if kind not in _NEEDED:
        said = (
            f"{options[TYPE]} is no type of catalog that tables are written into"
            if TYPE in options
            else "it has no type"
        )
        raise TableMismatch(f"the catalog cannot be used: {said}; name type={'|'.join(_NEEDED)}")
    for name in _NEEDED[kind]:
        if not options.get(name):
            raise TableMismatch(f"a catalog of type {kind} needs the option {name}")
    if kind in _SCHEMES:
        _check_uri(kind, options[URI])
    scheme = options.get(WAREHOUSE, "").partition(":")[0].lower()
    if kind == DIRECTORIES and scheme in _OBJECT_STORES and "lock-impl" not in options:
        raise TableMismatch(
            f"directories on {scheme} cannot refuse a second commit, as those on HDFS do: put the tables into a catalog of another type"
        )
    if options.get(_LOCK_OPTION, "true").lower() != "true":
        raise TableMismatch(
            "without Hive's lock a metastore may take a commit on old metadata: leave iceberg.engine.hive.lock-enabled out"
        )
    return {**_ADDED.get(kind, {}), **options, TYPE: kind}


def check_lock(options: Mapping[str, str], table_properties: Mapping[str, str], name: str) -> None:
    """Raises TableMismatch: the table's own property turns Hive's lock off."""
    if options.get(TYPE) == METASTORE and (table_properties.get(_LOCK_PROPERTY) or "true").lower() != "true":
        raise TableMismatch(
            f"table {name} has the property {_LOCK_PROPERTY}={table_properties.get(_LOCK_PROPERTY)}, and without Hive's lock a metastore may take "
            "a commit on old metadata: unset it"
        )


def compares_references_only(options: Mapping[str, str]) -> bool:
    """Whether a commit is refused only for snapshots that moved, not for properties that changed."""
    return options.get(TYPE) == REST


def catalog_words(options: Mapping[str, str]) -> str:
    """The catalog in a sentence."""
    kind = options.get(TYPE, "")
    place = options.get(URI) or options.get(WAREHOUSE, "")
    return f"the catalog of type {kind} at {place}" if place else f"the catalog of type {kind}"


def shown(key: str, value: str) -> str:
    """The value of an option in a sentence."""
    return "another one" if any(word in key.lower() for word in _SECRET_WORDS) else value


def _check_uri(kind: str, uri: str) -> None:
    for each in uri.split(",") if kind == METASTORE else [uri]:
        try:
            parts = urlsplit(each.strip())
            has_login, host = parts.username is not None or parts.password is not None, parts.hostname
        except ValueError:
            raise TableMismatch(
                f"the uri of the catalog is none, for type {kind} it has to begin with {_begins(kind)}"
            ) from None
        if has_login:
            raise TableMismatch(
                "the uri of the catalog has a login in it, which others would see: put the option credential or token into a file, "
                "--catalog-option @FILE"
            )
        if parts.scheme not in _SCHEMES[kind] or not host:
            raise TableMismatch(f"the uri of a catalog of type {kind} has to begin with {_begins(kind)}: {each}")


def _begins(kind: str) -> str:
    return " or ".join(f"{scheme}://HOST" for scheme in _SCHEMES[kind])
