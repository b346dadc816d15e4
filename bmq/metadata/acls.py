"""ACLs between the metadata log's records and what decides by them. Decisions only."""

from __future__ import annotations

from uuid import UUID

from bmq.protocol.metadata_records import AccessControlEntryRecord
from bmq.security.acls import Acl


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """The entry that a record adds."""
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def acl_record(acl_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    """The record that adds an entry."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
