"""Real catalogs of Iceberg on this machine for tests: Iceberg's own REST server in front of a database, and Hive's metastore.

    with rest_catalog(directory) as catalog:
        Catalog("bmq", "tables", catalog.options)

All they write is in their directory. The metastore is the one whose jars PySpark has, 2.3, on Derby.
"""

from __future__ import annotations

import importlib.util
import socket
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.error import URLError

from bmq.dev.hadoop_configuration import configuration_xml
from bmq.dev.java import QUICK_START_JVM_OPTIONS, class_path, java_executable
from testing.patience import Patience
from testing.processes import JARS, ManagedProcess, eventually, free_port

REST_JARS: Final = JARS / "iceberg-rest"
HOST: Final = "127.0.0.1"
HEAP_MB: Final = 256
START_S: Final = 90.0
LOCK_TIMEOUT_S: Final = 8
"""The metastore forgets a lock of which it hears nothing for so long."""
_REST_SERVER: Final = "org.apache.iceberg.rest.RESTCatalogServer"
_METASTORE: Final = Path(__file__).parent / "java_programs" / "Metastore.java"


@dataclass(frozen=True)
class CatalogService:
    """`options`: of Iceberg's catalog, for its clients. `process`: may be killed and started again."""

    options: Mapping[str, str]
    warehouse: Path
    process: ManagedProcess

    @property
    def words(self) -> list[str]:
        """The options on a command line."""
        return [word for key, value in self.options.items() for word in ("--catalog-option", f"{key}={value}")]


@contextmanager
def rest_catalog(directory: Path) -> Iterator[CatalogService]:
    """Iceberg's server of its REST API; tables and their metadata files are found by a database, SQLite."""
    port = free_port()
    warehouse = _made(directory / "warehouse")
    jars = f"{class_path(REST_JARS)}:{_spark_jars('hadoop-client-*.jar')}"
    process = ManagedProcess(
        "REST catalog",
        _command(jars, _REST_SERVER),
        directory / "rest-catalog.log",
        {
            "CATALOG_REST_PORT": str(port),
            "CATALOG_WAREHOUSE": f"file:{warehouse}",
            "CATALOG_URI": f"jdbc:sqlite:{directory}/catalog.db",
            "CATALOG_CLIENTS": "1",
        },
    )
    options = {"type": "rest", "uri": f"http://{HOST}:{port}"}

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{options['uri']}/v1/config", timeout=Patience(5).limit_s) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    with _running(process, answers):
        yield CatalogService(options, warehouse, process)


@contextmanager
def hive_catalog(directory: Path) -> Iterator[CatalogService]:
    """Hive's metastore, on a Derby of its own."""
    port = free_port()
    warehouse, conf, database = _made(directory / "warehouse"), _made(directory / "conf"), directory / "metastore"
    (conf / "hive-site.xml").write_text(
        configuration_xml(
            {
                "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={database};create=true",
                "datanucleus.schema.autoCreateAll": "true",
                "hive.metastore.schema.verification": "false",
                "hive.metastore.warehouse.dir": f"file:{warehouse}",
                # By default either needs a jar that PySpark has not.
                "hive.async.log.enabled": "false",
                "datanucleus.connectionPoolingType": "HikariCP",
                # Locks of clients that died are deleted by a thread that is started with these three alone.
                "hive.compactor.initiator.on": "true",
                "hive.support.concurrency": "true",
                "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
                "hive.txn.timeout": f"{LOCK_TIMEOUT_S}s",
                "hive.timedout.txn.reaper.start": "1s",
                "hive.timedout.txn.reaper.interval": "1s",
            }
        )
    )
    process = ManagedProcess(
        "Hive metastore",
        [
            *_command(
                f"{conf}:{_spark_jars('*.jar')}",
                str(_METASTORE),
                f"-Dderby.stream.error.file={directory}/derby.log",
                f"-Djava.io.tmpdir={directory}",
            ),
            *(str(database), "-p", str(port)),
        ],
        directory / "metastore.log",
    )

    def answers() -> bool:
        with closing(socket.socket()) as connection:
            return connection.connect_ex((HOST, port)) == 0

    with _running(process, answers):
        options = {
            "type": "hive",
            "uri": f"thrift://{HOST}:{port}",
            "warehouse": f"file:{warehouse}",
            "hadoop.iceberg.hive.lock-heartbeat-interval-ms": str(LOCK_TIMEOUT_S * 250),
        }
        yield CatalogService(options, warehouse, process)


@contextmanager
def _running(process: ManagedProcess, answers: Callable[[], bool]) -> Iterator[None]:
    process.start()
    try:
        eventually(lambda: answers() or not process.is_running, START_S, f"{process.name} answers", 0.2)
        assert process.is_running, f"{process}"
        yield
    finally:
        process.kill()


def _command(classes: str, program: str, *options: str) -> list[str]:
    return [
        *(java_executable(), *QUICK_START_JVM_OPTIONS, f"-Xmx{HEAP_MB}m", "-Djava.net.preferIPv4Stack=true"),
        *(*options, "-cp", classes, program),
    ]


def _spark_jars(pattern: str) -> str:
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None and spark.origin is not None
    return ":".join(str(jar) for jar in sorted((Path(spark.origin).parent / "jars").glob(pattern)))


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
