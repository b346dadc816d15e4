"""The files of a table of orders as they would be on HDFS, made in memory; and the recipes of docs/TABLES_READ.md, run on them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.memory import MemoryFileSystem
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.fsspec import FsspecFileIO

from testing.processes import REPOSITORY
from tests.support.directory_catalog import DirectoryCatalog

ORDERS: Final = 30
_WAREHOUSE_OF_PAGE: Final = "hdfs://NAMENODE:8020/warehouse"
SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)


class _Files(MemoryFileSystem):  # type: ignore[misc]
    """By whole URLs; not shared with other users of fsspec."""

    cachable = False
    store: dict[str, Any] = {}  # noqa: RUF012  # as fsspec has it
    pseudo_dirs: list[str] = [""]  # noqa: RUF012


class MemoryFileIO(FsspecFileIO):
    """pyiceberg's access to them."""

    def get_fs(self, scheme: str, hostname: str | None = None) -> MemoryFileSystem:
        return _Files()


def orders_on(warehouse: str) -> dict[str, bytes]:
    """Path below `warehouse`, a URL, to content: table `orders` with ORDERS rows in two files."""
    _Files.store.clear()
    properties = {PY_IO_IMPL: f"{__name__}.MemoryFileIO"}
    table = DirectoryCatalog(warehouse, properties).make("orders", SCHEMA, "at", "day")
    for day in (1, 2):
        rows = [
            {
                "id": number,
                "city": ("Berlin", "Bern", "Aachen")[number % 3],
                "price": Decimal(number),
                "at": datetime(2026, 11, day, 12, tzinfo=UTC),
            }
            for number in range(day - 1, ORDERS, 2)
        ]
        url = f"{warehouse}/tables/orders/data/{day}.parquet"
        with table.io.new_output(url).create() as stream:
            pq.write_table(pa.Table.from_pylist(rows, SCHEMA), stream)
        table.add_files([url])
    return {url.removeprefix(warehouse).strip("/"): file.getvalue() for url, file in _Files.store.items()}


def run_recipes(warehouse: str) -> dict[str, Any]:
    """Each Python block of the page in turn, as it stands there; returns the names that they leave."""
    page = (REPOSITORY / "docs" / "TABLES_READ.md").read_text()
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page.replace(_WAREHOUSE_OF_PAGE, warehouse), re.DOTALL):
        exec(block, found)
    return found


def check_recipes(warehouse: str) -> None:
    """What the recipes find of `orders_on`."""
    found = run_recipes(warehouse)
    berlin = range(0, ORDERS, 3)
    assert sorted(found["berlin"]["id"].to_pylist()) == list(berlin)
    assert found["by_city"] == [("Aachen", 10), ("Berlin", 10), ("Bern", 10)]
    assert found["by_files"] == [(ORDERS, sum(range(ORDERS)))]
    assert found["second_day"] == ORDERS // 2
