"""Benchmarks of bmq's HDFS client: beside Hadoop's own on the same cluster, and of what happens when an owner is lost."""
