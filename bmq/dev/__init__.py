"""Clusters started on this machine, for development and tests; servers never need them."""
