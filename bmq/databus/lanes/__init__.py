"""Lanes: what brings the records of a spool into the topics, each record once."""
