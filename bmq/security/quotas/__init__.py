"""Client quotas (KIP-13, 124, 219, 546, 599, 612): which one holds for a client, and how long a client has to wait."""
