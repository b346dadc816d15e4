"""Iceberg's Java API of one table, as far as `IcebergTable` uses it, in memory; with Spark's writer into it.

Kept like Iceberg 1.11: a transaction on old metadata is repeated on the newest, update by update; a tag is not, and
fails with CommitFailedException. Expiring a snapshot deletes the files that only it has. A REST catalog applies the updates to
its newest metadata, and compares only the current snapshot (`options`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JJavaError

from bmq.spark.tables.iceberg import Catalog, IcebergTable

_PACKAGE = "org.apache.iceberg.exceptions"


def java_error(name: str, *, wrapped_in: str = "") -> Py4JJavaError:
    """`wrapped_in`: the class of an exception that has it as its cause."""
    cause = _exception(f"{_PACKAGE}.{name}", None)
    return Py4JJavaError(name, _exception(wrapped_in, cause) if wrapped_in else cause)


def _exception(name: str, cause: Any) -> Any:
    return SimpleNamespace(
        _target_id="o1", getClass=lambda: SimpleNamespace(getName=lambda: name), getCause=lambda: cause
    )


@dataclass(frozen=True)
class FakeFile:
    name: str
    rows: int

    def location(self) -> str:
        return self.name

    def recordCount(self) -> int:  # noqa: N802  # Iceberg's names, here and below
        return self.rows


@dataclass(frozen=True)
class FakeSnapshot:
    number: int
    parent: int | None
    added: tuple[FakeFile, ...]
    all_files: tuple[FakeFile, ...]
    about: Mapping[str, str] = field(default_factory=dict)

    def snapshotId(self) -> int:  # noqa: N802
        return self.number

    def parentId(self) -> int | None:  # noqa: N802
        return self.parent

    def summary(self) -> Mapping[str, str]:
        return {**self.about, "total-records": str(sum(file.rows for file in self.all_files))}


@dataclass(frozen=True)
class Metadata:
    snapshots: Mapping[int, FakeSnapshot] = field(default_factory=dict)
    current: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, int] = field(default_factory=dict)

    def with_snapshot(
        self, number: int, added: Sequence[FakeFile], about: Mapping[str, str], *, is_staged: bool = False
    ) -> Metadata:
        before = () if self.current is None else self.snapshots[self.current].all_files
        snapshot = FakeSnapshot(number, self.current, tuple(added), (*before, *added), about)
        current = self.current if is_staged else number
        return replace(self, snapshots={**self.snapshots, number: snapshot}, current=current)


class FakeIceberg:
    """The table in its catalog, and what other engines do to it."""

    def __init__(self) -> None:
        self.metadata = Metadata(properties={"write.wap.enabled": "true"})
        self.deleted: set[str] = set()
        self.number = 100
        self.options: Mapping[str, str] = {"type": "hadoop", "warehouse": "/warehouse"}
        self.on_the_way: Callable[[], object] | None = None
        """Happens once, between a client's last look and the commit."""

    @property
    def compares_references_only(self) -> bool:
        return self.options["type"] == "rest"

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def handle(self) -> FakeHandle:
        return FakeHandle(self, self.metadata)

    # --- others

    def append(self, rows: int) -> None:
        number = self.next_number()
        self.metadata = self.metadata.with_snapshot(number, [FakeFile(f"other-{number}", rows)], {})

    def merge(self) -> None:
        number, current = self.next_number(), self.metadata.snapshots[self.metadata.current or 0]
        merged = FakeFile(f"merged-{number}", sum(file.rows for file in current.all_files))
        snapshot = FakeSnapshot(number, current.number, (merged,), (merged,))
        self.metadata = replace(self.metadata, snapshots={**self.metadata.snapshots, number: snapshot}, current=number)

    def make_current(self, snapshot_id: int) -> None:
        self.metadata = replace(self.metadata, current=snapshot_id)

    def expire(self, snapshot_ids: Sequence[int]) -> None:
        left = {number: each for number, each in self.metadata.snapshots.items() if number not in snapshot_ids}
        used = {file.name for each in left.values() for file in each.all_files}
        self.deleted |= {
            file.name for number in snapshot_ids for file in self.metadata.snapshots[number].all_files
        } - used
        self.metadata = replace(self.metadata, snapshots=left)

    def set_property(self, key: str, value: str) -> None:
        self.metadata = replace(self.metadata, properties={**self.metadata.properties, key: value})

    def rows(self) -> int:
        """What a reader counts. Fails where Iceberg's reader would: a file is missing."""
        if self.metadata.current is None:
            return 0
        files = self.metadata.snapshots[self.metadata.current].all_files
        missing = [file.name for file in files if file.name in self.deleted]
        assert not missing, f"files are missing: {missing}"
        return sum(file.rows for file in files)


class FakeHandle:
    """Iceberg's Table, or a transaction's."""

    def __init__(self, catalog: FakeIceberg, metadata: Metadata) -> None:
        self._catalog = catalog
        self.metadata = metadata

    def refresh(self) -> None:
        self.metadata = self._catalog.metadata

    def newScan(self) -> Any:  # noqa: N802
        """Of all rows: the fake has no partitions."""
        snapshot = self.currentSnapshot()
        files = () if snapshot is None else snapshot.all_files

        def tasks() -> Any:
            left = _JavaIterator(SimpleNamespace(file=lambda file=file: file) for file in files)
            return SimpleNamespace(iterator=lambda: left, close=lambda: None)

        return SimpleNamespace(filter=lambda _: SimpleNamespace(planFiles=tasks))

    def currentSnapshot(self) -> FakeSnapshot | None:  # noqa: N802
        return None if self.metadata.current is None else self.metadata.snapshots[self.metadata.current]

    def snapshot(self, snapshot_id: int) -> FakeSnapshot | None:
        return self.metadata.snapshots.get(snapshot_id)

    def snapshots(self) -> Any:
        kept = list(self.metadata.snapshots.values())
        return SimpleNamespace(size=lambda: len(kept), get=lambda number: kept[number])

    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    def updateProperties(self) -> FakeUpdate:  # noqa: N802
        transaction = self.newTransaction()
        update = transaction.updateProperties()
        update.then = transaction.commitTransaction
        return update

    def newTransaction(self) -> FakeTransaction:  # noqa: N802
        self.refresh()
        return FakeTransaction(self._catalog)


class FakeUpdate:
    """A pending update: `commit` applies it to the transaction's metadata, and `repeat` to newer metadata."""

    def __init__(self, transaction: FakeTransaction, apply: Callable[[FakeUpdate, Metadata], Metadata]) -> None:
        self._transaction = transaction
        self._apply = apply
        self.is_repeatable = True
        self.moves_main = False
        self.files: list[FakeFile] = []
        self.deleted: list[FakeFile] = []
        self.texts: dict[str, str] = {}
        self.then: Callable[[], None] = lambda: None

    def set(self, key: str, value: str) -> FakeUpdate:
        self.texts[key] = value
        return self

    def appendFile(self, file: FakeFile) -> FakeUpdate:  # noqa: N802
        self.files.append(file)
        return self

    def addFile(self, file: FakeFile) -> FakeUpdate:  # noqa: N802
        return self.appendFile(file)

    def deleteFile(self, file: FakeFile) -> FakeUpdate:  # noqa: N802
        self.deleted.append(file)
        return self

    def commit(self) -> None:
        self._transaction.updates.append(self)
        self._transaction.apply(self)
        self.then()

    def applied(self, metadata: Metadata) -> Metadata:
        return self._apply(self, metadata)


class FakeTransaction:
    def __init__(self, catalog: FakeIceberg) -> None:
        self._catalog = catalog
        self._base = catalog.metadata
        self._table = FakeHandle(catalog, catalog.metadata)
        self.updates: list[FakeUpdate] = []

    def table(self) -> FakeHandle:
        return self._table

    def apply(self, update: FakeUpdate) -> None:
        self._table.metadata = update.applied(self._table.metadata)

    def updateProperties(self) -> FakeUpdate:  # noqa: N802
        return FakeUpdate(self, lambda update, on: replace(on, properties={**on.properties, **update.texts}))

    def newAppend(self) -> FakeUpdate:  # noqa: N802
        number = self._catalog.next_number()
        update = FakeUpdate(self, lambda update, on: on.with_snapshot(number, update.files, update.texts))
        update.moves_main = True
        return update

    def newOverwrite(self) -> FakeUpdate:  # noqa: N802
        number = self._catalog.next_number()

        def applied(update: FakeUpdate, on: Metadata) -> Metadata:
            changed = on.with_snapshot(number, update.files, update.texts)
            left = tuple(file for file in changed.snapshots[number].all_files if file not in update.deleted)
            snapshot = replace(changed.snapshots[number], all_files=left)
            return replace(changed, snapshots={**changed.snapshots, number: snapshot})

        overwrite = FakeUpdate(self, applied)
        overwrite.moves_main = True
        return overwrite

    def manageSnapshots(self) -> FakeTags:  # noqa: N802
        return FakeTags(self)

    def commitTransaction(self) -> None:  # noqa: N802
        if self._base is not self._catalog.metadata:
            self._repeat()
        on_the_way, self._catalog.on_the_way = self._catalog.on_the_way, None
        if on_the_way is not None:
            on_the_way()
        present = self._catalog.metadata
        if self._base is not present and not self._catalog.compares_references_only:
            self._repeat()
        elif self._base.current != present.current:
            changed = {update for update in self.updates if update.moves_main}
            if changed:
                self._repeat()
        if self._catalog.compares_references_only:
            self._catalog.metadata = self._applied_to(present)
        else:
            self._catalog.metadata = self._table.metadata

    def _applied_to(self, metadata: Metadata) -> Metadata:
        try:
            for update in self.updates:
                metadata = update.applied(metadata)
        except Py4JJavaError:
            raise java_error("BadRequestException") from None
        return metadata

    def _repeat(self) -> None:
        self._table.metadata = self._base = self._catalog.metadata
        for update in self.updates:
            if not update.is_repeatable:
                raise java_error("CommitFailedException")
            self.apply(update)


class FakeTags:
    def __init__(self, transaction: FakeTransaction) -> None:
        self._transaction = transaction

    def createTag(self, name: str, snapshot_id: int) -> FakeUpdate:  # noqa: N802
        def created(_: FakeUpdate, on: Metadata) -> Metadata:
            if snapshot_id not in on.snapshots:
                raise java_error("ValidationException")
            return replace(on, tags={**on.tags, name: snapshot_id})

        return self._update(created)

    def setCurrentSnapshot(self, snapshot_id: int) -> FakeUpdate:  # noqa: N802
        update = FakeUpdate(self._transaction, lambda _, on: replace(on, current=snapshot_id))
        update.moves_main = True
        update.commit()
        return FakeUpdate(self._transaction, lambda _, on: on)

    def removeTag(self, name: str) -> FakeUpdate:  # noqa: N802
        return self._update(lambda _, on: replace(on, tags={tag: each for tag, each in on.tags.items() if tag != name}))

    def _update(self, apply: Callable[[FakeUpdate, Metadata], Metadata]) -> FakeUpdate:
        update = FakeUpdate(self._transaction, apply)
        update.is_repeatable = False
        return update


class FakeRows:
    """A DataFrame of so many rows. `before_append`: happens after the table was checked."""

    def __init__(self, catalog: FakeIceberg, rows: int, before_append: Callable[[], object] = lambda: None) -> None:
        self._catalog, self._rows, self._before_append = catalog, rows, before_append
        self._settings: dict[str, str] = {}
        self._options: dict[str, str] = {}
        conf = SimpleNamespace(set=self._settings.__setitem__, unset=self._settings.__delitem__)
        self.sparkSession = SimpleNamespace(conf=conf)

    def writeTo(self, identifier: str) -> FakeRows:  # noqa: N802
        return self

    def option(self, key: str, value: str) -> FakeRows:
        self._options[key.removeprefix("snapshot-property.")] = value
        return self

    def append(self) -> None:
        self._before_append()
        catalog, number = self._catalog, self._catalog.next_number()
        is_staged = catalog.metadata.properties.get("write.wap.enabled") == "true"
        about = {**self._options, **({"wap.id": self._settings["spark.wap.id"]} if is_staged else {})}
        files = [FakeFile(f"staged-{number}", self._rows)] if self._rows else []
        catalog.metadata = catalog.metadata.with_snapshot(number, files, about, is_staged=is_staged)


class FakeSession:
    """A session of Spark whose statements merge so many new rows; Iceberg's writer as for `FakeRows`."""

    def __init__(self, catalog: FakeIceberg, rows: int) -> None:
        self._catalog, self._rows = catalog, rows
        self._settings: dict[str, str] = {}
        self.conf = SimpleNamespace(set=self._settings.__setitem__, unset=self._settings.__delitem__)

    def sql(self, statement: str) -> Any:
        prefix = "spark.sql.iceberg.snapshot-property."
        options = {key.removeprefix(prefix): value for key, value in self._settings.items() if key.startswith(prefix)}
        rows = FakeRows(self._catalog, self._rows)
        rows.sparkSession.conf.set("spark.wap.id", self._settings["spark.wap.id"])
        for key, value in options.items():
            rows.option(key, value)
        return SimpleNamespace(collect=rows.append)


class _Changes:
    def builderFor(self, table: FakeHandle) -> _Changes:  # noqa: N802
        return self

    def snapshot(self, snapshot: FakeSnapshot) -> _Changes:
        self._snapshot = snapshot
        return self

    def build(self) -> _Changes:
        return self

    def addedDataFiles(self) -> Any:  # noqa: N802
        return SimpleNamespace(iterator=lambda: _JavaIterator(self._snapshot.added))


class _JavaIterator:
    def __init__(self, files: Iterable[Any]) -> None:
        self._left = list(files)

    def hasNext(self) -> bool:  # noqa: N802
        return bool(self._left)

    def next(self) -> Any:
        return self._left.pop(0)


def fake_table(catalog: FakeIceberg, kind: type[IcebergTable] = IcebergTable) -> IcebergTable:
    """The product's table on the fake. `kind`: a subclass that a test looks into."""
    names = ("greaterThanOrEqual", "lessThan", "and")
    expressions = SimpleNamespace(Expressions=SimpleNamespace(**{name: lambda *_: None for name in names}))
    jvm = SimpleNamespace(
        org=SimpleNamespace(
            apache=SimpleNamespace(iceberg=SimpleNamespace(SnapshotChanges=_Changes(), expressions=expressions))
        )
    )
    spark: Any = SimpleNamespace(_jvm=jvm)
    table = kind(spark, Catalog.of_options(catalog.options), "orders", "orders")
    table._handle = catalog.handle()
    return table
