"""What the benchmarks decide from their figures."""
