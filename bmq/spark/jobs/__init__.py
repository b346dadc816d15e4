"""Jobs over topics: `bmq spark stats|find|verify|backfill|mirror`, and the same as functions for a notebook.

    from bmq.spark.jobs.cluster import Cluster
    from bmq.spark.jobs.source import Source
    from bmq.spark.jobs.stats import stats

    ranges = Cluster({"bootstrap.servers": "localhost:9092"}).ranges(["events"])
    stats(spark, Source("localhost:9092"), ranges).to_json()

docs/SPARK_JOBS.md has them all.
"""
