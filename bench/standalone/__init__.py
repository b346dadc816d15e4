"""One bmq node beside one Apache Kafka node."""
