"""One table in Apache Iceberg: creates and extends it, and commits rows and offsets together.

Spark's writer commits rows but cannot change a property in the same commit. So rows are staged first, in a snapshot of the
table's metadata that readers do not see (write-audit-publish). Then one Iceberg transaction adds the staged files and the
offsets. A merge is staged in the same way, and depends on the snapshot that it has read: its transaction makes the staged snapshot
the current one, if that is still so.

Iceberg repeats a refused transaction on newer metadata, but only its updates. It does not check again whether another job
moved the offsets, the table was rolled back, or another engine expired the staged snapshot and deleted its files. So each
transaction begins with an update that Iceberg does not repeat, a tag (`_commit`): once the metadata has changed, everything
is checked and made again.

A REST catalog is sent changes, and compares only what they ask it to: snapshots, no properties. So there each commit of a property
that others check moves the branch `main` too, by a snapshot without rows: of two such commits on the same metadata the catalog
refuses the second.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from bmq.spark.tables.catalog_options import (
    DIRECTORIES,
    TYPE,
    catalog_words,
    check_lock,
    checked_options,
    compares_references_only,
    shown,
)
from bmq.spark.tables.columns import CHANGES_PROPERTY, OWNER_PROPERTY, create_statement, evolution_statements, quoted
from bmq.spark.tables.errors import CommitConflict, TableJobError, TableMismatch
from bmq.spark.tables.jvm_errors import service_errors
from bmq.spark.tables.snapshot_chain import STAGE_SUMMARY, WAP_PROPERTY, AncestorSnapshot, check_chain, check_staging
from bmq.spark.tables.table_offsets import OFFSETS_PROPERTY, WRITER_PROPERTY, TableOffsets, Writer
from bmq.table_definitions.index_identity import INDEX_PROPERTY

_CATALOG_CLASS: Final = "org.apache.iceberg.spark.SparkCatalog"
_VALIDATION_FAILED: Final = "org.apache.iceberg.exceptions.ValidationException"
_METADATA_MOVED: Final = "org.apache.iceberg.exceptions.CommitFailedException"
_BAD_REQUEST: Final = "org.apache.iceberg.exceptions.BadRequestException"
_CONFLICTS: Final = frozenset({_VALIDATION_FAILED, _METADATA_MOVED})
_CAUSES_MAX: Final = 20
_SCHEMA_ATTEMPTS_MAX: Final = 20
_COMMIT_ATTEMPTS_MAX: Final = 20
"""Tries of one commit while others, such as merges, change the metadata."""
_WAP_SETTING: Final = "spark.wap.id"
_WAP_SUMMARY: Final = "wap.id"
_SNAPSHOT_SETTING: Final = "spark.sql.iceberg.snapshot-property."
# Iceberg's own cherry-pick sets these too: cleanup sees from them that the staged files are in use.
_PUBLISHED_SUMMARY: Final = "published-wap-id"
_SOURCE_SUMMARY: Final = "source-snapshot-id"


def read_rows_one_by_one(session: SparkSession) -> None:
    """For tables of format 3, before the stream starts, which takes the settings of its session over.

    Iceberg 1.11 leaks direct memory with each batch of a vectorized read that keeps row ids, as merges and rewrites of such
    tables do (Iceberg's pull request 17296).
    """
    session.conf.set("spark.sql.iceberg.vectorization.enabled", "false")


@dataclass(frozen=True, slots=True)
class Catalog:
    """The catalog of the tables. `options`: of Iceberg's catalog, as in its documentation (type, uri, warehouse …). See `of_options`."""

    name: str
    namespace: str
    options: Mapping[str, str]

    @classmethod
    def in_warehouse(cls, warehouse: str, name: str = "bmq", namespace: str = "tables") -> Catalog:
        """Tables in directories of a file system, without a service: commits are renames that HDFS refuses twice."""
        return cls(name, namespace, {"type": "hadoop", "warehouse": warehouse})

    @classmethod
    def of_options(cls, options: Mapping[str, str], name: str = "bmq", namespace: str = "tables") -> Catalog:
        """Tables in a catalog of any type that commits conditionally. Raises TableMismatch."""
        return cls(name, namespace, checked_options(options))

    @property
    def is_in_directories(self) -> bool:
        return self.options.get(TYPE) == DIRECTORIES

    def configure(self, spark: SparkSession) -> None:
        """Register it with Spark. Raises TableJobError: Iceberg's jar is missing, or the catalog does not answer; TableMismatch: the name
        is taken, or the catalog cannot be used.
        """
        options = checked_options(self.options)
        if isinstance(_jvm(spark).org.apache.iceberg.spark.Spark3Util, JavaPackage):
            raise TableJobError("Iceberg's jar for this version of Spark is missing: name it in spark.jars")
        prefix = f"spark.sql.catalog.{self.name}"
        # Spark creates a catalog once: with other options a stream would write elsewhere than this session reads.
        for key, value in options.items():
            known = spark.conf.get(f"{prefix}.{key}", value)
            if known != value:
                raise TableMismatch(
                    f"this session of Spark has a catalog {self.name} already, with {key} {shown(key, str(known))}, not {shown(key, value)}: "
                    "take another session, or give the catalog another name"
                )
        spark.conf.set(prefix, _CATALOG_CLASS)
        # A cached table would hide the commits of other jobs, and those of this job from its other sessions.
        for key, value in {"cache-enabled": "false", **options}.items():
            spark.conf.set(f"{prefix}.{key}", value)
        statement = f"CREATE NAMESPACE IF NOT EXISTS {quoted(self.name)}.{quoted(self.namespace)}"
        if self.is_in_directories:
            spark.sql(statement)
        else:
            with service_errors(catalog_words(options)):
                spark.sql(statement)


@dataclass(frozen=True, slots=True)
class Staged:
    """Files that are written but not in the table yet. `merged_into`: what a merge has read; its snapshot is valid only behind that
    one, or as the first one (None).
    """

    stage_id: str
    snapshot_id: int
    files: Sequence[Any]
    is_merge: bool = False
    merged_into: int | None = None

    @property
    def rows(self) -> int:
        return sum(int(file.recordCount()) for file in self.files)


@dataclass(frozen=True, slots=True)
class TablePart:
    """Files of whole partitions, and the offsets up to which they have the topic."""

    offsets: TableOffsets | None
    files: Sequence[Any]

    @property
    def rows(self) -> int:
        return sum(int(file.recordCount()) for file in self.files)


@dataclass(frozen=True, slots=True)
class TableTotals:
    """Totals of the snapshot that readers see; `snapshot_id` is None before the first one. `rows`: without deleted ones."""

    snapshot_id: int | None
    rows: int
    files: int
    bytes: int


class IcebergTable:
    """A table of the catalog. `name`: in the catalog's namespace; `key`: name under which its offsets are stored."""

    def __init__(self, spark: SparkSession, catalog: Catalog, name: str, key: str) -> None:
        self._spark = spark
        self._catalog = catalog
        self._key = key
        self._handle: Any = None
        self.name = name
        self.identifier = ".".join(map(quoted, (catalog.name, catalog.namespace, name)))

    def ensure(
        self,
        columns: Mapping[str, str],
        topic: str,
        partitions: Sequence[str] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Create the table if missing, else add missing columns. Raises TableMismatch, TableJobError."""
        spark = self._spark
        spark.sql(create_statement(self.identifier, columns, topic, partitions, properties))
        existing = self._properties(self._load())
        if OWNER_PROPERTY not in existing:
            raise TableMismatch(f"table {self.name} is there already, and was not made of a topic; it is left alone")
        if existing.get(INDEX_PROPERTY) != properties.get(INDEX_PROPERTY):
            raise TableMismatch(
                f"the files of {self.name} are those of an index with other fields or keys, or of none: drop them (DROP TABLE "
                f"{self.identifier} PURGE), delete the checkpoint, and start the job again"
            )
        if existing.get(CHANGES_PROPERTY) != properties.get(CHANGES_PROPERTY):
            raise TableMismatch(
                f"the rows of {self.name} were written {_changes_words(existing.get(CHANGES_PROPERTY))}, and its definition says "
                f"{_changes_words(properties.get(CHANGES_PROPERTY))}: drop them (DROP TABLE {self.identifier} PURGE), delete the "
                "checkpoint, and start the job again"
            )
        self._check_staging(self._load())
        for _ in range(_SCHEMA_ATTEMPTS_MAX):
            if not (statements := self._missing(columns)):
                return
            try:
                for statement in statements:
                    spark.sql(statement)
                return
            except Py4JJavaError as error:
                # Iceberg retries other commits itself, but no change of a schema: merged files are enough to refuse it.
                if _class_of(error) not in _CONFLICTS:
                    raise
        raise TableJobError(f"table {self.name}: others keep writing it, so that no column can be added")

    def _missing(self, columns: Mapping[str, str]) -> list[str]:
        existing = {
            each.name: each.dataType.simpleString() for each in self._spark.table(self.identifier).schema.fields
        }
        return evolution_statements(self.identifier, existing, columns, self.name)

    def column_names(self) -> list[str]:
        return list(self._spark.table(self.identifier).columns)

    def offsets(self) -> TableOffsets | None:
        """The present offsets; None before the first commit. Raises TableMismatch: the rows they count are not there."""
        return self._checked_offsets(self._load())

    def upgrade_offsets(self, *, accept_rollback: bool) -> None:
        """Make the offsets of an earlier release name a snapshot. `accept_rollback`: name the current one in any case."""
        table = self._load()
        current = table.currentSnapshot()
        if current is None:
            return

        def tie(transaction: Any, table: Any) -> None:
            offsets = self._offsets(table)
            if offsets is not None and (accept_rollback or offsets.snapshot_id is None):
                self._move_main(transaction)
                self._set_offsets(transaction, replace(offsets, snapshot_id=int(table.currentSnapshot().snapshotId())))

        offsets = self._offsets(table)
        if offsets is not None and (accept_rollback or offsets.snapshot_id is None):
            self._commit(tie, int(current.snapshotId()))

    def writer(self) -> Writer | None:
        """The present writer. Raises TableMismatch."""
        text = self._properties(self._load()).get(WRITER_PROPERTY + self._key)
        return None if text is None else Writer.from_json(text)

    def claim(self, writer: Writer) -> None:
        """Refuse commits of other writers from now on. Raises CommitConflict, TableMismatch."""
        if not compares_references_only(self._catalog.options):
            self._load().updateProperties().set(WRITER_PROPERTY + self._key, writer.to_json()).commit()
            return

        def change(transaction: Any, table: Any) -> None:
            offsets = self._checked_offsets(table)
            self._move_main(transaction)
            transaction.updateProperties().set(WRITER_PROPERTY + self._key, writer.to_json()).commit()
            if offsets is not None:  # else expiring all but the newest snapshot would look like a rollback
                self._set_offsets(transaction, replace(offsets, snapshot_id=int(table.currentSnapshot().snapshotId())))

        current = self._load().currentSnapshot()
        self._commit(change, None if current is None else int(current.snapshotId()))

    def _move_main(self, transaction: Any) -> None:
        """Make a snapshot without rows, where a commit of properties alone would not be compared with other commits."""
        if compares_references_only(self._catalog.options):
            transaction.newAppend().commit()

    def totals(self) -> TableTotals:
        snapshot = self._load().currentSnapshot()
        if snapshot is None:
            return TableTotals(None, 0, 0, 0)
        summary = snapshot.summary()
        return TableTotals(
            snapshot.snapshotId(),
            int(summary.get("total-records") or 0) - int(summary.get("total-position-deletes") or 0),
            int(summary.get("total-data-files") or 0),
            int(summary.get("total-files-size") or 0),
        )

    def stage(self, rows: DataFrame) -> Staged:
        """Write the files of these rows. If the job dies now, expiring snapshots removes the files.

        Raises TableMismatch: the table does not stage rows.
        """

        def append(stage_id: str) -> None:
            rows.writeTo(self.identifier).option(f"snapshot-property.{STAGE_SUMMARY}", stage_id).append()

        return self._staged(rows.sparkSession, append)

    def stage_merge(self, session: SparkSession, statement: str) -> Staged:
        """Run a statement that merges into this table, see `stage`. Raises CommitConflict: others changed the table meanwhile."""

        def merge(stage_id: str) -> None:
            # A statement has no options, so its session has them.
            session.conf.set(_SNAPSHOT_SETTING + STAGE_SUMMARY, stage_id)
            try:
                session.sql(statement).collect()
            finally:
                session.conf.unset(_SNAPSHOT_SETTING + STAGE_SUMMARY)

        try:
            staged = self._staged(session, merge)
        except Py4JJavaError as error:
            if _is_conflict(error):
                raise CommitConflict(f"table {self.name} was changed while a batch was merged into it") from error
            raise
        snapshot = self._load().snapshot(staged.snapshot_id)
        if snapshot is None:
            raise CommitConflict(f"the staged snapshot of table {self.name} was expired by another job")
        parent_id = snapshot.parentId()
        return replace(staged, is_merge=True, merged_into=None if parent_id is None else int(parent_id))

    def _staged(self, session: SparkSession, write: Callable[[str], None]) -> Staged:
        self._check_staging(self._load())
        stage_id = uuid.uuid4().hex
        session.conf.set(_WAP_SETTING, stage_id)
        try:
            write(stage_id)
        finally:
            session.conf.unset(_WAP_SETTING)
        table = self._load()
        snapshot = next((each for each in _newest_first(table) if each.summary().get(_WAP_SUMMARY) == stage_id), None)
        if snapshot is None:
            self._checked_offsets(table)  # refuses rows that readers see
            raise CommitConflict(f"the staged snapshot of table {self.name} was expired by another job")
        changes = _jvm(self._spark).org.apache.iceberg.SnapshotChanges.builderFor(table).snapshot(snapshot).build()
        return Staged(stage_id, snapshot.snapshotId(), tuple(_each(changes.addedDataFiles())))

    def publish(self, staged: Staged, expected: TableOffsets | None, new: TableOffsets, writer: Writer | None) -> int:
        """Add the staged files and move the offsets in one commit. Returns the new snapshot's id.

        `writer`: must still own the table; None where several jobs write. Raises CommitConflict: the offsets are not the
        expected ones any more, the staged snapshot expired, or another job owns the table. Raises TableMismatch: the table
        was rolled back, or does not stage rows any more.
        """

        def change(transaction: Any, table: Any) -> None:
            self._check_staging(table)
            if writer is not None and self._properties(table).get(WRITER_PROPERTY + self._key) != writer.to_json():
                raise CommitConflict(f"table {self.name} has another writer")
            if self._checked_offsets(table) != expected:
                raise CommitConflict(f"the offsets of table {self.name} have moved")
            if staged.is_merge:
                self._make_current(transaction, table, staged)
            else:
                self._add_files(transaction, staged)
            self._set_offsets(transaction, replace(new, snapshot_id=int(table.currentSnapshot().snapshotId())))

        return int(self._commit(change, staged.snapshot_id).currentSnapshot().snapshotId())

    def part(self, column: str, bounds: tuple[datetime, datetime]) -> TablePart:
        """Files with rows whose time is from the first bound on and before the second, and the offsets up to which they have the topic."""
        table = self._load()
        return TablePart(self._checked_offsets(table), tuple(self._files_within(table, column, bounds)))

    def replace_part(self, part: TablePart, staged: Staged, column: str, bounds: tuple[datetime, datetime]) -> int:
        """Put the staged files in the place of the part's, in one commit; the offsets stay. Returns the new snapshot's id.

        Rows that others have added to the part since stay. Raises CommitConflict: some of the part's files are not in the table any more,
        or the staged snapshot expired. Raises TableMismatch: the table was rolled back.
        """

        def change(transaction: Any, table: Any) -> None:
            self._check_staging(table)
            self._checked_offsets(table)
            # A transaction's table cannot be scanned. If this one is newer, the commit is refused and made again.
            present = {str(file.location()) for file in self._files_within(self._load(), column, bounds)}
            if not {str(file.location()) for file in part.files} <= present:
                raise CommitConflict(f"files of table {self.name} were merged or deleted while they were written anew")
            overwrite = transaction.newOverwrite()
            for file in part.files:
                overwrite.deleteFile(file)
            for file in staged.files:
                overwrite.addFile(file)
            overwrite.set(_PUBLISHED_SUMMARY, staged.stage_id)
            overwrite.set(_SOURCE_SUMMARY, str(staged.snapshot_id))
            overwrite.commit()

        return int(self._commit(change, staged.snapshot_id).currentSnapshot().snapshotId())

    def _files_within(self, table: Any, column: str, bounds: tuple[datetime, datetime]) -> list[Any]:
        expressions = _jvm(self._spark).org.apache.iceberg.expressions.Expressions
        # As texts: a number would reach Java as an Integer or a Long, as its size is.
        start, end = (bound.isoformat() for bound in bounds)
        both = getattr(expressions, "and")  # a word of Python's own
        within = both(expressions.greaterThanOrEqual(column, start), expressions.lessThan(column, end))
        tasks = table.newScan().filter(within).planFiles()
        try:
            return [task.file() for task in _each(tasks)]
        finally:
            tasks.close()

    def _add_files(self, transaction: Any, staged: Staged) -> None:
        # Done even without files: offsets need a snapshot to name.
        append = transaction.newAppend()
        for file in staged.files:
            append.appendFile(file)
        append.set(_PUBLISHED_SUMMARY, staged.stage_id)
        append.set(_SOURCE_SUMMARY, str(staged.snapshot_id))
        append.commit()

    def _make_current(self, transaction: Any, table: Any, staged: Staged) -> None:
        """Raises CommitConflict: the merge was made with other rows than the present ones."""
        current = table.currentSnapshot()
        if (None if current is None else int(current.snapshotId())) != staged.merged_into:
            raise CommitConflict(f"table {self.name} was changed since a batch was merged into it")
        transaction.manageSnapshots().setCurrentSnapshot(staged.snapshot_id).commit()

    def _set_offsets(self, transaction: Any, offsets: TableOffsets) -> None:
        transaction.updateProperties().set(OFFSETS_PROPERTY + self._key, offsets.to_json()).commit()

    def _commit(self, change: Callable[[Any, Any], None], pinned_snapshot_id: int | None) -> Any:
        """Commit what `change(transaction, table)` makes, to exactly the metadata it has seen; returns the table.

        `pinned_snapshot_id`: None for a table without snapshots, where Iceberg may repeat the change. When the metadata has
        changed meanwhile, `change` is called again. Raises CommitConflict: the pinned snapshot is gone, or others keep changing
        the table.
        """
        tag = f"bmq-{uuid.uuid4().hex}"
        for _ in range(_COMMIT_ATTEMPTS_MAX):
            transaction = self._load().newTransaction()
            table = transaction.table()
            try:
                # Fails if the snapshot is gone, in the catalog itself too. Readers never see the tag.
                if pinned_snapshot_id is not None:
                    transaction.manageSnapshots().createTag(tag, pinned_snapshot_id).commit()
                    transaction.manageSnapshots().removeTag(tag).commit()
                change(transaction, table)
                transaction.commitTransaction()
                return table
            except Py4JJavaError as error:
                if _class_of(error) == _METADATA_MOVED:
                    continue
                if _class_of(error) == _VALIDATION_FAILED or (
                    _class_of(error) == _BAD_REQUEST and self._is_gone(pinned_snapshot_id)
                ):
                    raise CommitConflict(f"a snapshot of table {self.name} was expired by another job") from error
                raise
        raise CommitConflict(f"table {self.name}: others keep changing it")

    def _is_gone(self, snapshot_id: int | None) -> bool:
        """A REST server says in this way that it cannot set a tag."""
        return snapshot_id is not None and self._load().snapshot(snapshot_id) is None

    def _load(self) -> Any:
        """The table's present state through Iceberg's own API. Raises TableJobError."""
        try:
            if self._handle is None:
                self._handle = _jvm(self._spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
                    self._spark._jsparkSession, self.identifier
                )
            else:
                self._handle.refresh()
            return self._handle
        except (Py4JJavaError, AnalysisException) as error:
            raise TableJobError(f"table {self.name} cannot be loaded: {str(error).splitlines()[0]}") from error

    def _checked_offsets(self, table: Any) -> TableOffsets | None:
        """Raises TableMismatch."""
        offsets = self._offsets(table)
        check_chain(_chain(table), offsets, self.name)
        return offsets

    def _check_staging(self, table: Any) -> None:
        """Raises TableMismatch."""
        properties = self._properties(table)
        check_staging(properties.get(WAP_PROPERTY), self.name)
        check_lock(self._catalog.options, properties, self.name)

    def _offsets(self, table: Any) -> TableOffsets | None:
        text = self._properties(table).get(OFFSETS_PROPERTY + self._key)
        return None if text is None else TableOffsets.from_json(text)

    @staticmethod
    def _properties(table: Any) -> Any:
        return table.properties()


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _is_conflict(error: Py4JJavaError) -> bool:
    """Whether Iceberg refused a commit, also one that Spark made, which wraps the exception."""
    exception = error.java_exception
    for _ in range(_CAUSES_MAX):
        if exception is None:
            break
        if str(exception.getClass().getName()) in _CONFLICTS:
            return True
        exception = exception.getCause()
    return False


def _changes_words(changes: str | None) -> str:
    return "a row for each record" if changes is None else f"as changes, {changes}"


def _class_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getName())


def _chain(table: Any) -> Iterator[AncestorSnapshot]:
    """The current snapshot and its retained ancestors, newest first."""
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        parent_id = snapshot.parentId()
        is_stage = snapshot.summary().get(STAGE_SUMMARY) is not None
        yield AncestorSnapshot(int(snapshot.snapshotId()), None if parent_id is None else int(parent_id), is_stage)
        snapshot = None if parent_id is None else table.snapshot(parent_id)


def _newest_first(table: Any) -> Iterator[Any]:
    snapshots = table.snapshots()
    for number in range(snapshots.size() - 1, -1, -1):
        yield snapshots.get(number)


def _each(of: Any) -> Iterator[Any]:
    iterator = of.iterator()
    while iterator.hasNext():
        yield iterator.next()
