"""Iceberg tables in a directory, laid out as Iceberg's Hadoop catalog lays them out, written by pyiceberg without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, StaticTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform, HourTransform

_TRANSFORMS: dict[str, Any] = {
    "hour": HourTransform(),
    "day": DayTransform(),
}


class DirectoryCatalog(NoopCatalog, MetastoreCatalog):
    """One directory per table, `metadata/vN.metadata.json`, and `version-hint.text` with the newest N. For one writer."""

    def __init__(self, warehouse: Path | str, properties: Mapping[str, str] = MappingProxyType({})) -> None:
        """`warehouse`: a local directory, or a URL that the files' access reads; pyiceberg's `properties` say which that is."""
        super().__init__("directory", warehouse=str(warehouse))
        self._warehouse = f"file:{warehouse}" if isinstance(warehouse, Path) else warehouse
        self._io_properties = dict(properties)

    def make(self, name: str, schema: pa.Schema, time_column: str, every: str = "hour") -> Table:
        """An empty table with partitions by a time."""
        location = f"{self._warehouse}/tables/{name}"
        staged = self._create_staged_table(("tables", name), schema, location)
        source = staged.schema().find_field(time_column).field_id
        spec = PartitionSpec(
            PartitionField(source_id=source, field_id=1000, transform=_TRANSFORMS[every], name=f"{time_column}_{every}")
        )
        staged = self._create_staged_table(("tables", name), staged.schema(), location, spec)
        self._write(staged.metadata, 1)
        return self.load_table(("tables", name))

    def load_table(self, identifier: Any) -> Table:
        version = self._version(identifier[-1])
        path = f"{self._warehouse}/tables/{identifier[-1]}/metadata/v{version}.metadata.json"
        metadata = StaticTable.from_metadata(path, self._io_properties).metadata
        return Table(identifier, metadata, path, self._io(path), self)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        current = self.load_table(table.name())
        staged = self._update_and_stage_table(current, table.name(), requirements, updates)
        path = self._write(staged.metadata, self._version(table.name()[-1]) + 1)
        return CommitTableResponse(metadata=staged.metadata, metadata_location=path)

    def _io(self, path: str) -> FileIO:
        return load_file_io(self._io_properties, path)

    def _version(self, name: str) -> int:
        path = f"{self._warehouse}/tables/{name}/metadata/version-hint.text"
        with self._io(path).new_input(path).open() as hint:
            return int(hint.read())

    def _write(self, metadata: TableMetadata, version: int) -> str:
        path = f"{metadata.location}/metadata/v{version}.metadata.json"
        ToOutputFile.table_metadata(metadata, self._io(path).new_output(path))
        with (
            self._io(path).new_output(f"{metadata.location}/metadata/version-hint.text").create(overwrite=True) as hint
        ):
            hint.write(b"%d" % version)
        return path


def set_properties(table: Table, properties: Mapping[str, str]) -> None:
    with table.transaction() as transaction:
        transaction.set_properties(dict(properties))
