"""The REST API for operators: what the cluster looks like, and orders that change it."""
