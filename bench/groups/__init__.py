"""Transactions, committed offsets and groups whose coordinator assigns (KIP-848), of bmq and of Apache Kafka."""
