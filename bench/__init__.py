"""Benchmarks: bmq beside Apache Kafka on the same machine, driven by the same stock clients."""
