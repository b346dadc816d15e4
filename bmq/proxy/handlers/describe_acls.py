"""DescribeAcls: the ACLs that match a filter, by resource. Without an authorizer it is refused, as in Kafka."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_acls_request import DescribeAclsRequest
from bmq.protocol.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services
from bmq.security.acls import AclFilter, Operation, PatternType, Permission, ResourceType

NO_AUTHORIZER = "No Authorizer is configured on the broker"


@handles(ApiKey.DESCRIBE_ACLS)
async def describe_acls(
    request: DescribeAclsRequest, context: RequestContext, services: Services
) -> DescribeAclsResponse:
    """DescribeAcls 1-3."""
    if not services.access.is_on:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    for value, kind in (
        (request.resource_type_filter, ResourceType),
        (request.pattern_type_filter, PatternType),
        (request.operation, Operation),
        (request.permission_type, Permission),
    ):
        if value not in kind._value2member_map_ or value == 0:
            return DescribeAclsResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message="The filter has an unknown element."
            )
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    found: dict[tuple[int, str, int], list[AclDescription]] = {}
    pace = Pace()
    for acl in tuple(services.controller.image.acls.values()):
        if wanted.matches(acl):
            found.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(
                AclDescription(
                    principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
                )
            )
        if pace.is_over():
            await context.turns.next()
    resources = []
    for (resource_type, name, pattern), acls in found.items():
        resources.append(
            DescribeAclsResource(resource_type=resource_type, resource_name=name, pattern_type=pattern, acls=acls)
        )
        if pace.is_over():
            await context.turns.next()
    return DescribeAclsResponse(error_message="", resources=resources)
