"""An index's files, as Iceberg's metadata names them: which there are, which a selection needs, up to which offsets they go.

The table's directory is read without a catalog (`version-hint.text`), as the job's Hadoop catalog writes it. Metadata files never
change, so the last one that was read is kept.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow.parquet as pq
from pyiceberg.exceptions import ValidationError
from pyiceberg.io import PY_IO_IMPL, load_file_io
from pyiceberg.table import FileScanTask, StaticTable

from bmq.dataclass import dataclass
from bmq.hdfs.location import is_hdfs
from bmq.index.errors import IndexMismatch, QueryTooWide, SourceAway
from bmq.index.pruning import Estimate, bounds_of, bytes_of, iceberg_filter, may_match
from bmq.index.query import Selection
from bmq.index.statement import row_columns
from bmq.spark.tables.errors import TableMismatch
from bmq.spark.tables.table_offsets import OFFSETS_PROPERTY, TableOffsets
from bmq.table_definitions.index_identity import INDEX_PROPERTY, index_identity
from bmq.table_definitions.stored import StoredTable

NAMESPACE: Final = "tables"
FILES_MAX: Final = 20_000
"""Files of one query. More are refused: planning them takes memory."""
FOOTERS_MAX: Final = 2_000
"""Files whose footers are read for a better estimate."""
_VERSION_HINT: Final = "version-hint.text"
_HINT_BYTES_MAX: Final = 64
_HDFS_IO: Final = "bmq.index.hdfs_files.HdfsFileIO"


@dataclass(frozen=True, slots=True)
class PlannedFiles:
    """`urls`: as the metadata names the files. `absent`: columns of the definition that none of them has."""

    urls: tuple[str, ...]
    absent: frozenset[str]
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class IndexState:
    """One version of the table. `offsets`: by partition the first one that is not indexed; empty before the first commit."""

    table: StaticTable | None
    offsets: Mapping[int, int]

    @property
    def snapshot_id(self) -> int | None:
        snapshot = None if self.table is None else self.table.current_snapshot()
        return None if snapshot is None else snapshot.snapshot_id


class IndexFiles:
    """The tables of a warehouse. One per thread."""

    def __init__(self, warehouse: str, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """`warehouse`: hdfs://NAMENODE:PORT/DIR, file:/DIR or /DIR, as the job was given it. `monotonic_s`: the clock."""
        self._monotonic_s = monotonic_s
        self.warehouse = warehouse.rstrip("/")
        self._properties: dict[str, str] = {}
        if is_hdfs(warehouse):
            from bmq.index.hdfs_files import WAREHOUSE_PROPERTY

            self._properties = {PY_IO_IMPL: _HDFS_IO, WAREHOUSE_PROPERTY: self.warehouse}
        self._newest: dict[str, tuple[str, int, StaticTable]] = {}

    def state(self, stored: StoredTable) -> IndexState:
        """The present version. Raises IndexMismatch: the files are of another topic; SourceAway."""
        name = stored.definition.name
        table = self._table(name)
        if table is None:
            return IndexState(None, {})
        text = table.metadata.properties.get(OFFSETS_PROPERTY + name)
        if text is None:
            return IndexState(None, {})
        if table.metadata.properties.get(INDEX_PROPERTY) != index_identity(stored.definition):
            raise IndexMismatch(
                f"the files of index {name} are those of a former one with other fields or keys: drop them (DROP TABLE in Spark), "
                "delete the checkpoint of its job, and start the job again"
            )
        try:
            offsets = TableOffsets.from_json(text)
        except TableMismatch as error:
            raise IndexMismatch(f"index {name}: {error}") from None
        if offsets.topic != stored.definition.topic or _uuid(offsets.topic_id) != stored.topic_id:
            raise IndexMismatch(
                f"the files of index {name} were made of topic {offsets.topic} with id {offsets.topic_id}, which is not the "
                f"index's topic {stored.definition.topic} any more; drop them (DROP TABLE in Spark) and run its job again"
            )
        return IndexState(table, offsets.next_offsets)

    def plan(self, state: IndexState, selection: Selection, bytes_max: int, *, deadline_s: float) -> PlannedFiles:
        """The files that a selection needs. Raises QueryTooWide with the estimate, SourceAway.

        The estimate of the manifests stands if that of the footers is not there at `deadline_s`.
        """
        table = state.table
        if table is None or table.current_snapshot() is None:
            return PlannedFiles((), frozenset(), Estimate(0, 0, 0, 0))
        try:
            with _file_errors():
                tasks = list(table.scan(row_filter=iceberg_filter(selection)).plan_files())
        except (ValueError, ValidationError) as error:
            raise IndexMismatch(f"the files of the index do not fit its definition: {error}") from None
        if any(task.delete_files for task in tasks):
            raise IndexMismatch(
                "another engine deleted rows of the index by delete files; merge them (rewrite_data_files)"
            )
        total = _total_files(table)
        if len(tasks) > FILES_MAX:
            raise QueryTooWide(
                f"the query is too wide: it would read {len(tasks)} of {total} files, and {FILES_MAX} are allowed; give a "
                "time window, or a key"
            )
        ids = {field.name: field.field_id for field in table.schema().fields}
        needed = [ids[name] for name, _ in row_columns(selection) if name in ids]
        size = sum(bytes_of(task.file.column_sizes, needed, task.file.file_size_in_bytes) for task in tasks)
        rows = sum(task.file.record_count for task in tasks)
        if size > bytes_max and len(tasks) <= FOOTERS_MAX:
            rows, size = self._by_footers(table, tasks, selection, deadline_s) or (rows, size)
        if size > bytes_max:
            raise QueryTooWide(
                f"the query is too wide: it would read about {size} bytes ({rows} rows) of {len(tasks)} of {total} files, and "
                f"{bytes_max} bytes are allowed; give a shorter time window, or a key"
            )
        return PlannedFiles(
            tuple(task.file.file_path for task in tasks),
            frozenset(name for name, _ in row_columns(selection) if name not in _present(table, tasks, ids)),
            Estimate(len(tasks), total, rows, size),
        )

    def _by_footers(
        self, table: StaticTable, tasks: list[FileScanTask], selection: Selection, deadline_s: float
    ) -> tuple[int, int] | None:
        """Rows and bytes of the row groups that may have a match; None: the deadline came first."""
        bounds = {each.field: each for each in bounds_of(selection)}
        wanted = {name for name, _ in row_columns(selection)}
        rows = size = 0
        for task in tasks:
            if self._monotonic_s() >= deadline_s:
                return None
            with _file_errors(), table.io.new_input(task.file.file_path).open() as stream:
                footer = pq.ParquetFile(stream).metadata
            for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
                columns = [group.column(number) for number in range(group.num_columns)]
                if all(_group_may_match(column, bounds.get(column.path_in_schema)) for column in columns):
                    rows += group.num_rows
                    size += sum(one.total_compressed_size for one in columns if one.path_in_schema in wanted)
        return rows, size

    def _table(self, name: str) -> StaticTable | None:
        """The newest version; None: the job has made no table yet. Raises SourceAway."""
        directory = f"{self.warehouse}/{NAMESPACE}/{name}/metadata"
        io = load_file_io(self._properties, directory)
        try:
            with _file_errors():
                with io.new_input(f"{directory}/{_VERSION_HINT}").open() as stream:
                    version = stream.read(_HINT_BYTES_MAX).decode().strip()
                location = f"{directory}/v{version}.metadata.json"
                # A table that was dropped and made again has files of the same names.
                size = len(io.new_input(location))
                known = self._newest.get(name)
                if known is None or known[:2] != (location, size):
                    known = self._newest[name] = (location, size, StaticTable.from_metadata(location, self._properties))
        except FileNotFoundError:
            return None
        return known[2]


class _file_errors:  # noqa: N801  # a context manager, named like a function
    """Converts errors of files, other than missing ones, to SourceAway."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise SourceAway(f"the files of the index cannot be read: {error}") from error


def local_path(url: str) -> str:
    """A file's path as DuckDB takes it: a local one without a scheme, others as they are."""
    return urlsplit(url).path if url.startswith("file:") else url


def _uuid(topic_id: str) -> uuid.UUID | None:
    """A topic id as Kafka's clients write it."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "=="))
    except ValueError:
        return None


def _total_files(table: StaticTable) -> int:
    snapshot = table.current_snapshot()
    summary = None if snapshot is None else snapshot.summary
    return 0 if summary is None else int(summary.get("total-data-files") or 0)


def _present(table: StaticTable, tasks: list[FileScanTask], ids: Mapping[str, int]) -> frozenset[str]:
    """Columns that at least one of the files has. A file without statistics is taken to have all."""
    known: set[int] = set()
    for task in tasks:
        if not task.file.column_sizes:
            return frozenset(ids)
        known.update(task.file.column_sizes)
    return frozenset(name for name, number in ids.items() if number in known)


def _group_may_match(column: Any, bounds: Any) -> bool:
    if bounds is None or not column.is_stats_set:
        return True
    statistics = column.statistics
    if not statistics.has_min_max:
        return True
    return may_match(bounds, statistics.min, statistics.max)
