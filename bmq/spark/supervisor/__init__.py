"""Keeps the jobs of a cluster's tables running: starts them, restarts those that ended, and says what state each is in."""
