"""A module for each target; see tests/fuzz/target.py."""
