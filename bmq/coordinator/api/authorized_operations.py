"""The operations on a group, as bits of AclOperation (KIP-430). Without an authorizer a client may perform all.

With one, bmq/proxy/authorization puts the operations that the ACLs allow into answers.
"""

from __future__ import annotations

from typing import Final

AUTHORIZED_OPERATIONS: Final = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS (AclOperation's numbers)."""
