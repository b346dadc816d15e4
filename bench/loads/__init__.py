"""A cluster of bmq on HDFS beside Apache Kafka under librdkafka: rates, processor time, latency, backlogs, many partitions."""
