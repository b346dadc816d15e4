"""Clusters started for development: configuration, ports, files and orders, without starting any."""
