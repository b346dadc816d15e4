"""One core of a server, bmq's beside Apache Kafka's, under a client that costs next to nothing on another core."""
