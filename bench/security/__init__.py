"""What security costs beside Apache Kafka: TLS, logins, ACLs, quotas, and strangers who stop half-way."""
