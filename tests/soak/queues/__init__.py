"""Share groups under a soak: members that accept, release, reject, stall and die, and what they were told."""
