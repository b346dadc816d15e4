"""Stock Kafka clients and tools against a real server process."""
