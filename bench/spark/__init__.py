"""Spark's pipeline on bmq beside Spark's Kafka connector: `python -m bench.spark`."""
