"""ACLs, users of SCRAM and client quotas, as Kafka's tools show them. Nothing is changed here, and no secret is shown."""

from __future__ import annotations

from itertools import islice
from typing import Final

from fastapi import APIRouter, Request
from pydantic import BaseModel

from bmq.admin.rest.problems import errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.user_requests import check, user_requests
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.describe_acls_request import DescribeAclsRequest
from bmq.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from bmq.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from bmq.security.acls import Operation, PatternType, Permission, ResourceType

SHOWN_MAX: Final = 10_000
_ANY: Final = 1
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class AclLine(BaseModel):
    """`pattern`: literal or prefixed."""

    resource_type: str
    resource_name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


class AclPage(BaseModel):
    """`count`: of all ACLs; the first 10,000 are here."""

    acls: list[AclLine]
    count: int


class ScramMechanism(BaseModel):
    mechanism: str
    iterations: int


class UserLine(BaseModel):
    user: str
    mechanisms: list[ScramMechanism]


class UserPage(BaseModel):
    """`count`: of all users; the first 10,000 are here."""

    users: list[UserLine]
    count: int


class QuotaLine(BaseModel):
    """`entity`: user, client-id and ip, each with a name, or null for its default. `values`: limits by Kafka's names."""

    entity: dict[str, str | None]
    values: dict[str, float]


class QuotaPage(BaseModel):
    """`count`: of all entries; the first 10,000 are here."""

    quotas: list[QuotaLine]
    count: int


def security_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get("/v1/acls", responses=errors(409, 503, 504))
    async def acls(request: Request) -> AclPage:
        """All ACLs. 409 without an authorizer."""
        asked = DescribeAclsRequest(
            resource_type_filter=_ANY, pattern_type_filter=_ANY, operation=_ANY, permission_type=_ANY
        )
        answer = await user_requests(sources, request).ask(ApiKey.DESCRIBE_ACLS, asked)
        check(answer.error_code, answer.error_message)
        found = ((resource, acl) for resource in answer.resources for acl in resource.acls)
        lines = [
            AclLine(
                resource_type=ResourceType(resource.resource_type).name.lower(),
                resource_name=resource.resource_name,
                pattern=PatternType(resource.pattern_type).name.lower(),
                principal=acl.principal,
                host=acl.host,
                operation=Operation(acl.operation).name.lower(),
                permission=Permission(acl.permission_type).name.lower(),
            )
            for resource, acl in islice(found, SHOWN_MAX)
        ]
        return AclPage(acls=lines, count=sum(len(resource.acls) for resource in answer.resources))

    @pages.get("/v1/users", responses=errors(503, 504))
    async def users(request: Request) -> UserPage:
        """The users of SCRAM, and the mechanisms that each has keys for."""
        answer = await user_requests(sources, request).ask(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=None)
        )
        check(answer.error_code, answer.error_message)
        lines = [
            UserLine(
                user=one.user,
                mechanisms=[
                    ScramMechanism(mechanism=_MECHANISMS.get(each.mechanism, "unknown"), iterations=each.iterations)
                    for each in one.credential_infos
                ],
            )
            for one in sorted(answer.results, key=lambda one: one.user)[:SHOWN_MAX]
        ]
        return UserPage(users=lines, count=len(answer.results))

    @pages.get("/v1/quotas", responses=errors(503, 504))
    async def quotas(request: Request) -> QuotaPage:
        """All client quotas."""
        answer = await user_requests(sources, request).ask(
            ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components=[], strict=False)
        )
        check(answer.error_code, answer.error_message)
        entries = answer.entries or ()
        lines = [
            QuotaLine(
                entity={part.entity_type: part.entity_name for part in entry.entity},
                values={value.key: value.value for value in entry.values},
            )
            for entry in islice(entries, SHOWN_MAX)
        ]
        return QuotaPage(quotas=lines, count=len(entries))

    return pages
