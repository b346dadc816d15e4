"""Share groups of bmq beside those of Apache Kafka, on one node and on three."""
