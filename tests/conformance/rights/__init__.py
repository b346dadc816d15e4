"""Requests by users with and without each right, at bmq and at Apache Kafka: who may do what, and how a refusal looks."""
