"""Benchmarks of a cluster: bmq on HDFS beside three Apache Kafka brokers, in peace and when something is taken away."""
