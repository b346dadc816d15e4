"""The job that keeps a table of a topic in Apache Iceberg, each record exactly once.

`job.run_table` is the entry point. `table_offsets` and `columns` decide and know no Spark; `decoding` builds expressions;
`iceberg`, `checkpoint`, `topic` and `maintenance` perform.
"""
