"""Answers queries on indexes: finds records of a topic by what is in them. docs/INDEX.md describes it for users.

`engine.QueryEngine` is the entry point. `query`, `statement`, `continuation`, `completeness` and `pruning` decide;
`file_planning` reads Iceberg's files, `topic_log` the topic, `service` answers over HTTP. No server imports this package.
"""
