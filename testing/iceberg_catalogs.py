"""Catalogs of Iceberg that are services: Hive's metastore, and Iceberg's REST catalog. Each in a JVM of its own, on a free port.

The metastore is the one whose jars PySpark brings (2.3), with its database in memory. The REST catalog is the server of Iceberg's own
tests, before tables in a directory; `make .cache/jars/iceberg-rest/.fetched` fetches it.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from testing.java import java_executable
from testing.processes import JARS, ManagedProcess, ProcessFailed, eventually, free_port

START_S: Final = 120.0
_HEAP: Final = "-Xmx400M"
_METASTORE: Final = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_REST_SERVER: Final = "org.apache.iceberg.rest.RESTCatalogServer"
_OPENED: Final = (
    "java.lang",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "sun.nio.ch",
)
"""Packages of java.base that Hive reaches into."""
_METASTORE_SETTINGS: Final[Mapping[str, str]] = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "datanucleus.connectionPoolingType": "NONE",
    "hive.metastore.schema.verification": "false",
    # Makes the tables of locks, which Iceberg's commits take.
    "hive.in.test": "true",
}


def _pyspark_jars() -> Path:
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "jars"


def _jvm(main_class: str, class_path: Sequence[str], arguments: Sequence[str], directory: Path) -> list[str]:
    opened = [word for name in _OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    options = [_HEAP, f"-Dderby.system.home={directory}", f"-Djava.io.tmpdir={directory}"]
    return [java_executable(), *options, *opened, "-cp", ":".join(class_path), main_class, *arguments]


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _running(process: ManagedProcess, port: int) -> Iterator[None]:
    process.start()

    def is_ready() -> bool:
        if not process.is_running:
            raise ProcessFailed(f"{process.name} ended with {process.exit_code}{process}")
        return _answers(port)

    try:
        eventually(is_ready, START_S, f"{process.name} answers")
        yield
    finally:
        process.kill()


@contextmanager
def hive_catalog(directory: Path) -> Iterator[dict[str, str]]:
    """Options of a catalog in a metastore; the tables' files are in `directory`."""
    port = free_port()
    directory.mkdir(parents=True)
    warehouse = f"file:{directory}/warehouse"
    settings = {**_METASTORE_SETTINGS, "hive.metastore.warehouse.dir": warehouse}
    arguments = ["-p", str(port), *(word for pair in settings.items() for word in ("--hiveconf", "=".join(pair)))]
    command = _jvm(_METASTORE, [f"{_pyspark_jars()}/*"], arguments, directory)
    with _running(ManagedProcess("Hive's metastore", command, directory / "metastore.log"), port):
        yield {"type": "hive", "uri": f"thrift://127.0.0.1:{port}", "warehouse": warehouse}


@contextmanager
def rest_catalog(directory: Path) -> Iterator[dict[str, str]]:
    """Options of a REST catalog; the tables' files are in `directory`."""
    port = free_port()
    directory.mkdir(parents=True)
    warehouse = f"file:{directory}/warehouse"
    settings = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.hadoop.HadoopCatalog",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_REST_PORT": str(port),
    }
    command = _jvm(_REST_SERVER, [f"{JARS}/iceberg-rest/*", f"{_pyspark_jars()}/*"], [], directory)
    with _running(ManagedProcess("REST catalog", command, directory / "rest.log", settings), port):
        yield {"type": "rest", "uri": f"http://127.0.0.1:{port}"}
