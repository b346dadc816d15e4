"""Kafka messages as plain dataclasses. Written by tools/generate_messages.py; do not edit."""
