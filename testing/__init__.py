"""What tests and benchmarks share: servers and clusters to start, programs in Java, raw requests, patience."""
