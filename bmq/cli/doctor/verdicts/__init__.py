"""What a probe saw, as findings. Each module decides alone, and does no I/O."""
