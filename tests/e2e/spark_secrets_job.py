"""A Spark job whose options have secrets, and all that Spark shows of it: python -m tests.e2e.spark_secrets_job TOLD WAREHOUSE

TOLD is a JSON file: options of the connector for a server with logins, `kafka`; the same for format("bmq"), `bmq`, which logs in
to HDFS as `principal` by `keytab`; `refused`, which that one does not take; and `shown`, a directory. Into that directory go
Spark's log of events, plans, pages and REST answers of its interface, and checkpoints. The last line of output is JSON: what
was read, the texts of errors, and the HDFS tokens that the driver has got.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bmq.spark.source import register
from bmq.spark.source.driver_tokens import TokenDirectory
from tests.e2e.spark_job import session

WAIT_S = 60
REDACTED = "(?i)secret|password|token|access[.]?key|keystore[.]key|jaas"
"""As docs/SPARK.md has it."""
REST = (
    "environment",
    "sql?details=true&planDescription=true",
    "jobs",
    "stages?details=true",
    "executors",
    "allexecutors",
)
PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")


def settings(told: dict[str, Any], shown: Path) -> dict[str, str]:
    events = shown / "events"
    events.mkdir(parents=True)
    return {
        "spark.kerberos.principal": told["principal"],
        "spark.kerberos.keytab": told["keytab"],
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.redaction.regex": REDACTED,
        # As for its token provider.
        "spark.kafka.clusters.one.auth.bootstrap.servers": told["kafka"]["kafka.bootstrap.servers"],
        "spark.kafka.clusters.one.kafka.sasl.jaas.config": told["kafka"]["kafka.sasl.jaas.config"],
    }


def plans(frame: DataFrame) -> str:
    execution = frame._jdf.queryExecution()
    explained = frame.sparkSession._jvm.PythonSQLUtils.explainString
    return "\n".join(
        [execution.toString(), *(explained(execution, mode) for mode in ("extended", "formatted", "cost"))]
    )


def streamed(frame: DataFrame, name: str, shown: Path) -> StreamingQuery:
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(shown / f"checkpoint-{name}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def read_all(spark: SparkSession, name: str, options: dict[str, str], shown: Path) -> dict[str, Any]:
    batch = spark.read.format(name).options(**options).load().selectExpr("cast(value as string) as value")
    stream = spark.readStream.format(name).options(**options).load().selectExpr("cast(value as string) as value")
    read = {row.value for row in batch.collect()}
    query = streamed(stream, name, shown)
    found = {row.value for row in spark.sql(f"select value from {name}").collect()}
    texts = [
        plans(batch),
        query._jsq.explainInternal(True),
        json.dumps([dict(one) for one in query.recentProgress], default=str),
    ]
    (shown / f"plans-{name}.txt").write_text("\n".join([*texts, repr(batch), str(query.lastProgress)]))
    return {"read": len(read), "streamed": len(found)}


def refusal(spark: SparkSession, options: dict[str, str]) -> str:
    try:
        spark.read.format("bmq").options(**options).load().collect()
    except PySparkException as error:
        return str(error)
    raise AssertionError("it was taken")


def look_at_interface(spark: SparkSession, shown: Path) -> None:
    context = spark.sparkContext
    base = context.uiWebUrl
    rest = {
        f"rest-{path.partition('?')[0]}": f"{base}/api/v1/applications/{context.applicationId}/{path}" for path in REST
    }
    pages = {f"page-{page}": f"{base}/{page}/" for page in PAGES}
    executions = json.loads(_got(rest["rest-sql"]))
    assert executions
    of_plans = {f"page-SQL-{one['id']}": f"{base}/SQL/execution/?id={one['id']}" for one in executions}
    for name, url in {**rest, **pages, **of_plans}.items():
        (shown / name).write_bytes(_got(url))


def _got(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        content: bytes = answer.read()
    return content


def main() -> None:
    told, warehouse = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    shown = Path(told["shown"])
    spark = session(warehouse, configs=settings(told, shown))
    spark.sparkContext.setLogLevel("INFO")
    register(spark)
    written = spark.createDataFrame([("1",), ("2",), ("3",)], "value string").coalesce(1)
    written.write.format("kafka").options(**told["kafka"], topic=told["kafka"]["subscribe"]).save()
    found: dict[str, Any] = {
        name: read_all(spark, name, {**told[name], "startingOffsets": "earliest"}, shown) for name in ("kafka", "bmq")
    }
    found["refused"] = [refusal(spark, {**told["bmq"], **one}) for one in told["refused"]]
    look_at_interface(spark, shown)
    directory = TokenDirectory.shared()
    assert directory is not None
    found["tokens"] = [
        [b64encode(secret).decode() for secret in (one.token.identifier, one.token.password)]
        for _, one in directory.all()
    ]
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
