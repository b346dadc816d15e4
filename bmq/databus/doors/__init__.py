"""Doors: where applications hand records over. A Unix socket with frames, and HTTP."""
