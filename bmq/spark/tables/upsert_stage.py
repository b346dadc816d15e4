"""Stages the merge of a batch's last records, on Spark. What is merged is decided in `upsert`."""

from __future__ import annotations

import uuid

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from bmq.spark.tables.errors import RecordsRefused
from bmq.spark.tables.iceberg import IcebergTable, Staged
from bmq.spark.tables.upsert import (
    CHANGE_COLUMN,
    BatchSummary,
    batch_summary,
    last_records_query,
    merge_statement,
    moved_key,
    moved_sentence,
    summary_query,
)
from bmq.table_definitions.definition import TableDefinition


def stage_last_records(
    table: IcebergTable, records: DataFrame, definition: TableDefinition
) -> tuple[Staged, BatchSummary]:
    """Stage what a batch's records do to the rows. `records`: those that fit, with columns of the table and what each does.

    The batch is read once: its last records are kept until they are merged. Raises RecordsRefused: a key has records in two partitions;
    CommitConflict.
    """
    assert definition.changes is not None
    types = {each.name: each.type for each in definition.fields}
    key, session = {name: types[name] for name in definition.changes.key}, records.sparkSession
    number = uuid.uuid4().hex
    all_records, last_records = f"bmq_records_{number}", f"bmq_last_records_{number}"
    records.createOrReplaceTempView(all_records)
    last = session.sql(last_records_query(all_records, list(key))).persist()
    try:
        last.createOrReplaceTempView(last_records)
        summary = batch_summary(session.sql(summary_query(last_records, key)).collect()[0], key)
        if summary.moved is not None:
            raise RecordsRefused(moved_sentence(summary.moved, definition.topic, definition.name))
        columns = [name for name in records.columns if name != CHANGE_COLUMN]
        try:
            statement = merge_statement(table.identifier, last_records, key, columns, summary.bounds)
            staged = table.stage_merge(session, statement)
        except (Py4JJavaError, PySparkException) as error:
            sentence = moved_key(str(error), definition.topic, definition.name)
            if sentence is None:
                raise
            raise RecordsRefused(sentence) from None
        return staged, summary
    finally:
        for view in (all_records, last_records):
            session.catalog.dropTempView(view)
        last.unpersist()
