"""Fixtures with a real ZooKeeper. Java or jars that are missing are an error: a test that did not run proves nothing."""

from testing.zookeeper import own_zookeeper, zookeeper  # noqa: F401
