"""A gateway beside Kafka's Java producer."""
