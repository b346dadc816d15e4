"""Spark jobs on a kerberized HDFS, one with executors that have no login: python -m tests.e2e.spark_token_job TOLD WAREHOUSE

TOLD is a JSON file: `bootstrap`, `topic`, `store`, and `keytab`, by which the driver alone logs in. The last line of output is
JSON: how many values a batch and a stream read, how many pieces of files the batch was planned with, how many
records `bmq verify` looked at and what it found, and which keytab an executor knows.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from bmq.spark.jobs.stores import StoreAddress
from bmq.spark.jobs.verify import verify
from bmq.spark.source import register
from bmq.spark.source.options import read_options
from bmq.spark.source.plan import FilePiece
from bmq.spark.source.session import Session
from tests.e2e.spark_job import session

KEYTAB = "KRB5_CLIENT_KTNAME"


async def pieces_of_files(options: dict[str, str]) -> int:
    async with Session.opened(read_options(options, is_stream=False)) as opened:
        begins, ends = await opened.earliest(), await opened.latest()
        ranges, _ = await opened.plan({one: (begins[one], ends[one]) for one in opened.partitions})
    return sum(isinstance(piece, FilePiece) for one in ranges for piece in one.pieces)


def main() -> None:
    told, warehouse = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    os.environ[KEYTAB] = told["keytab"]
    os.environ["KRB5CCNAME"] = f"FILE:{warehouse.parent / 'tickets'}"
    # The environment of executors has no login. (The processes that plan `format("bmq")` for the driver would get it, too.)
    nowhere = {f"spark.executorEnv.{KEYTAB}": "/nowhere", "spark.executorEnv.KRB5CCNAME": "FILE:/nowhere"}
    spark = session(warehouse, "local-cluster[1,2,1024]", nowhere)
    report = verify(spark, StoreAddress(told["store"]), [told["topic"]])
    found = {
        "verified_records": sum(one.records for one in report.partitions),
        "findings": report.finding_count,
        "executors_keytab": spark.sparkContext.range(1).map(lambda _: os.environ.get(KEYTAB)).collect()[0],
    }
    spark.stop()
    here = {name: os.environ[name.removeprefix("spark.executorEnv.")] for name in nowhere}
    spark = session(warehouse, configs=here)
    register(spark)
    options = {"kafka.bootstrap.servers": told["bootstrap"], "subscribe": told["topic"], "startingOffsets": "earliest"}
    batch = spark.read.format("bmq").options(**options).load().selectExpr("cast(value as string) as value")
    stream = spark.readStream.format("bmq").options(**options).load().selectExpr("cast(value as string) as value")
    query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
    query.awaitTermination()
    found |= {
        "read": len({row.value for row in batch.collect()}),
        "streamed": len({row.value for row in spark.sql("select value from streamed").collect()}),
        "pieces_of_files": asyncio.run(pieces_of_files(options)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
