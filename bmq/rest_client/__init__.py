"""Clients of a cluster's REST API: how commands and jobs log in there."""
