"""The operations on a group that a client is told it may perform."""

from __future__ import annotations

from typing import Final

AUTHORIZED_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS (AclOperation's numbers): there are no ACLs to restrict
them."""
