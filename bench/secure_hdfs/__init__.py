"""Benchmarks of bmq's HDFS client on an HDFS with Kerberos: beside itself on an open one, and beside Hadoop's own client."""
