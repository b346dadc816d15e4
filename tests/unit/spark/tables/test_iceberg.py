"""Commits into a fake of Iceberg; tests/e2e/test_spark_iceberg.py has the same on Iceberg itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")
from py4j.protocol import Py4JJavaError

from bmq.spark.tables.errors import CommitConflict, TableMismatch
from bmq.spark.tables.snapshot_chain import AncestorSnapshot, check_chain, check_staging
from bmq.spark.tables.table_offsets import TableOffsets, Writer
from tests.fakes.iceberg import FakeIceberg, FakeRows, FakeSession, fake_table, java_error
from tests.support.iceberg_contract import (
    CHANGES_CONTRACT,
    CONTRACT,
    PARTS_CONTRACT,
    DisturbedTable,
    World,
    write,
    written,
)

pytestmark = pytest.mark.unit


class FakeWorld(FakeIceberg):
    def table(self) -> DisturbedTable:
        return cast(DisturbedTable, fake_table(self, DisturbedTable))

    def data(self, rows: int, before_append: Callable[[], object] = lambda: None) -> Any:
        return FakeRows(self, rows, before_append)

    def changes(self, rows: int) -> tuple[Any, str]:
        return FakeSession(self, rows), "MERGE"

    def expire(self, snapshot_id: Any) -> None:
        super().expire([snapshot_id])

    def expire_all_but_current(self) -> None:
        super().expire([number for number in self.metadata.snapshots if number != self.metadata.current])


@pytest.mark.parametrize("check", [*CONTRACT, *CHANGES_CONTRACT, *PARTS_CONTRACT], ids=lambda check: check.__name__)
def test_contract(check: Callable[[World], None]) -> None:
    check(FakeWorld())


class RestWorld(FakeWorld):
    """What happens meanwhile happens behind the client's last look at the catalog."""

    def __init__(self) -> None:
        super().__init__()
        self.options = {"type": "rest", "uri": "http://catalog:8181"}

    def table(self) -> DisturbedTable:
        table = super().table()

        def on_the_way(happen: Callable[[], object]) -> None:
            self.on_the_way = happen

        table.between = on_the_way
        return table


class MetastoreWorld(RestWorld):
    """As `RestWorld`, but all metadata is compared."""

    def __init__(self) -> None:
        super().__init__()
        self.options = {"type": "hive", "uri": "thrift://metastore:9083", "warehouse": "/warehouse"}


@pytest.mark.parametrize("world", [RestWorld, MetastoreWorld])
@pytest.mark.parametrize("check", [*CONTRACT, *CHANGES_CONTRACT, *PARTS_CONTRACT], ids=lambda check: check.__name__)
def test_contract_where_others_come_behind_the_last_look(
    check: Callable[[World], None], world: type[FakeWorld]
) -> None:
    check(world())


def test_a_table_without_hives_lock_is_not_written() -> None:
    world = MetastoreWorld()
    table, _ = written(world)
    world.set_property("engine.hive.lock-enabled", "false")
    with pytest.raises(TableMismatch, match="without Hive's lock"):
        write(world, table, 5)
    assert world.rows() == 20


def test_claims_alone_do_not_look_like_a_rollback() -> None:
    world = RestWorld()
    table, _ = written(world)
    for run in ("2", "3"):
        table.claim(Writer("/ours", run))
        world.expire_all_but_current()
    offsets = table.offsets()
    assert offsets is not None and offsets.next_offsets == {0: 20}
    assert table.totals().rows == 20


def test_the_first_claim_is_made_in_a_table_without_snapshots() -> None:
    world = RestWorld()
    table = world.table()
    table.claim(Writer("/ours", "1"))
    assert (table.writer(), table.offsets(), world.rows()) == (Writer("/ours", "1"), None, 0)


def test_a_table_that_others_keep_changing_is_given_up() -> None:
    world = FakeWorld()
    table, _ = written(world)

    def again() -> None:
        world.set_property("a", "b")
        table.meanwhile = again

    table.meanwhile = again
    with pytest.raises(CommitConflict, match="others keep changing it"):
        write(world, table, 5)
    assert world.rows() == 20 and not world.metadata.tags


@pytest.mark.parametrize("wrapped_in", ["", "org.apache.spark.SparkException"])
def test_a_merge_that_iceberg_refuses_is_tried_again(wrapped_in: str) -> None:
    world = FakeWorld()
    table, _ = written(world)
    session = FakeSession(world, 5)

    def refused(error: str) -> None:
        def sql(statement: str) -> None:
            raise java_error(error, wrapped_in=wrapped_in)

        session.sql = sql  # type: ignore[method-assign]
        table.stage_merge(cast(Any, session), "MERGE")

    with pytest.raises(CommitConflict, match="while a batch was merged into it"):
        refused("ValidationException")
    with pytest.raises(Py4JJavaError):
        refused("NoSuchTableException")
    assert world.rows() == 20


def tied(snapshot_id: int | None) -> TableOffsets:
    return TableOffsets("orders", "an-id", {0: 5}, snapshot_id=snapshot_id)


def test_the_chain_is_walked_no_further_than_to_the_snapshot_of_the_offsets() -> None:
    def chain() -> Iterator[AncestorSnapshot]:
        yield AncestorSnapshot(9, 8)
        yield AncestorSnapshot(8, 7)
        raise AssertionError("8 was enough")

    check_chain(chain(), tied(8), "t")
    check_chain([AncestorSnapshot(9, 8, is_stage=True)], tied(9), "t")
    with pytest.raises(TableMismatch, match="roll the table back to snapshot 8"):
        check_chain([AncestorSnapshot(9, 8, is_stage=True)], tied(8), "t")
    check_chain(chain(), tied(7), "t")


@pytest.mark.parametrize("chain", [[], [AncestorSnapshot(1, None)], [AncestorSnapshot(9, 8)]])
def test_a_snapshot_that_is_no_ancestor_as_far_as_they_are_known_is_refused(chain: list[AncestorSnapshot]) -> None:
    check_chain(chain, None, "t")
    check_chain(chain, tied(None), "t")
    with pytest.raises(TableMismatch, match="up to snapshot 5"):
        check_chain(chain, tied(5), "t")


def test_only_a_table_that_stages_is_written() -> None:
    check_staging("true", "t")
    check_staging("TRUE", "t")
    for value in (None, "", "false", "yes"):
        with pytest.raises(TableMismatch, match="ALTER TABLE"):
            check_staging(value, "t")
