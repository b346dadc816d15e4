"""The job that keeps an Apache Iceberg table of a topic, each record exactly once.

`job.run_table` is the entry point. `table_offsets` and `columns` decide, without Spark; `decoding` builds expressions;
`iceberg`, `checkpoint`, `topic` and `maintenance` perform.
"""
