"""Logins (SASL), rights (ACLs) and quotas of clients, decided apart from I/O."""
