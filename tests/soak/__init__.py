"""Faults from a seed under a load of real clients: nothing acknowledged may be lost, doubled or moved."""
