"""The pure parts of the soak: its plan, its checker, its accounts."""
