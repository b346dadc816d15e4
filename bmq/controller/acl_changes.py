"""CreateAcls and DeleteAcls: each entry and each filter has its own result. Decisions only.

Checks, codes and words are those of Kafka's AclControlManager (4.3): an entry that is there already succeeds and writes
nothing; operations that make no sense for a type, and resources that do not exist, are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from bmq.controller.decision import Deciding, Decision
from bmq.metadata.acls import acl_record
from bmq.metadata.image import MetadataImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from bmq.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from bmq.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from bmq.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from bmq.protocol.metadata_records import FeatureLevelRecord, MetadataRecord, RemoveAccessControlEntryRecord
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns
from bmq.security.acls import CLUSTER_NAME, Acl, AclFilter, Operation, PatternType, Permission, ResourceType, name_of

RECORDS_MAX: Final = 10_000
"""Most records of one request: Kafka's MAX_RECORDS_PER_USER_OP."""
_CLIENT_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_CLIENT_OPERATIONS: Final = frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}


@Deciding
def decide_create_acls(
    image: MetadataImage,
    request: CreateAclsRequest,
    level_records: Callable[[], Collection[FeatureLevelRecord]],
    new_uuid: Callable[[], UUID],
) -> InTurns[Decision[CreateAclsResponse]]:
    """`level_records`: what has to be written before the first ACL; may raise KafkaError, which every entry gets."""
    records: list[MetadataRecord] = []
    held, results, pace = set(image.acls.values()), [], Pace()
    for creation in request.creations:
        try:
            acl = _required(creation)
            if acl not in held:
                if len(records) >= RECORDS_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, f"One request may add {RECORDS_MAX} ACLs at most.")
                level = level_records() if not records else ()
                records += [*level, acl_record(new_uuid(), acl)]
                held.add(acl)
            results.append(AclCreationResult(error_message=""))
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=str(error)))
        if pace.is_over():
            yield
    return Decision(CreateAclsResponse(results=results), records)


@Deciding
def decide_delete_acls(image: MetadataImage, request: DeleteAclsRequest) -> InTurns[Decision[DeleteAclsResponse]]:
    """Each filter is answered with all that it matches, also what an earlier one has deleted already."""
    removed: dict[UUID, MetadataRecord] = {}
    results, pace = [], Pace()
    for one in request.filters:
        try:
            wanted = filter_of(one)
            matching = []
            for acl_id, acl in image.acls.items():
                if wanted.matches(acl):
                    matching.append(_matching(acl))
                    removed[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
                    if len(removed) > RECORDS_MAX:
                        raise KafkaError(
                            ErrorCode.POLICY_VIOLATION, f"One request may remove {RECORDS_MAX} ACLs at most."
                        )
                if pace.is_over():
                    yield
            results.append(DeleteAclsFilterResult(matching_acls=matching))
        except KafkaError as error:
            if error.code is ErrorCode.POLICY_VIOLATION:
                return Decision(_all_refused(request, error))
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=str(error)))
    return Decision(DeleteAclsResponse(filter_results=results), tuple(removed.values()))


def filter_of(one: DeleteAclsFilter) -> AclFilter:
    """Raises KafkaError INVALID_REQUEST."""
    for value, kind, name in (
        (one.resource_type_filter, ResourceType, "resource type"),
        (one.pattern_type_filter, PatternType, "pattern type"),
        (one.operation, Operation, "operation"),
        (one.permission_type, Permission, "permission type"),
    ):
        if value not in kind._value2member_map_ or value == 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The filter has an unknown {name}.")
    return AclFilter(
        one.resource_type_filter,
        one.resource_name_filter,
        one.pattern_type_filter,
        one.principal_filter,
        one.host_filter,
        one.operation,
        one.permission_type,
    )


def _required(creation: AclCreation) -> Acl:
    """The entry to add. Raises KafkaError INVALID_REQUEST."""
    if creation.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {name_of(PatternType, creation.resource_pattern_type)}")
    if creation.resource_type not in _CLIENT_TYPES:
        raise _invalid(f"Invalid resourceType {name_of(ResourceType, creation.resource_type)}")
    if creation.operation not in _CLIENT_OPERATIONS:
        raise _invalid(f"Invalid operation {name_of(Operation, creation.operation)}")
    if creation.permission_type not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {name_of(Permission, creation.permission_type)}")
    if not creation.resource_name:
        raise _invalid("Resource name should not be empty")
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}.")
    kind, separator, name = creation.principal.partition(":")
    if not separator or not kind or not name:
        raise _invalid(f"Could not parse principal from `{creation.principal}` (no colon is present separating the "
                       "principal type from the principal name)")  # fmt: skip
    if not creation.host:
        raise _invalid("The host is empty.")
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _all_refused(request: DeleteAclsRequest, error: KafkaError) -> DeleteAclsResponse:
    results = [DeleteAclsFilterResult(error_code=error.code, error_message=str(error)) for _ in request.filters]
    return DeleteAclsResponse(filter_results=results)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
