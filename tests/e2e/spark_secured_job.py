"""A Spark job that writes and reads a topic of a secured server: python -m tests.e2e.spark_secured_job TOLD WAREHOUSE

TOLD is a JSON file: the connector's `options`, and the `topic`. The last line of output is JSON: what was read in a batch,
and by a stream.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.spark_job import session


def main() -> None:
    told, warehouse = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    options, topic = told["options"], told["topic"]
    spark = session(warehouse)
    written = spark.createDataFrame([("1",), ("2",), ("3",)], "value string").coalesce(1)
    written.write.format("kafka").options(**options, topic=topic).save()
    reading = {**options, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("kafka").options(**reading).load().selectExpr("cast(value as string) as value")
    stream = spark.readStream.format("kafka").options(**reading).load().selectExpr("cast(value as string) as value")
    query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
    query.awaitTermination()
    streamed = spark.sql("select value from streamed")
    found = {
        name: sorted(row.value for row in rows.collect()) for name, rows in (("read", batch), ("streamed", streamed))
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
