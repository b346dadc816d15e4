"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554). Decisions only.

Checks, codes and words are those of Kafka's ScramControlManager and ScramImage (4.3). The request carries salted
passwords, which are as good as passwords: only the keys derived from them are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from bmq.controller.decision import Deciding, Decision
from bmq.controller.security_level import security_level_records
from bmq.metadata.credentials import Users
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bmq.protocol.messages.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from bmq.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from bmq.protocol.messages.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from bmq.protocol.metadata_records import (
    MetadataRecord,
    RegisterBrokerRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from bmq.protocol.turns import NO_TURNS, Pace, Turns, in_turns
from bmq.protocol.wire_turns import InTurns
from bmq.security.sasl.scram_keys import BY_NUMBER, ITERATIONS_MAX, ITERATIONS_MIN, keys_of

SALT_BYTES_MAX: Final = 1_024
"""Longest salt and salted password: every node keeps the salt, and clients send 64 bytes at most."""
NAME_CHARS_MAX: Final = 1_024
_KEYS_PER_TURN_MAX: Final = 50


@Deciding
def decide_alter_users(
    users: Users,
    request: AlterUserScramCredentialsRequest,
    features: Mapping[str, int],
    registrations: Mapping[int, RegisterBrokerRecord],
) -> InTurns[Decision[AlterUserScramCredentialsResponse]]:
    """A result for each user, in the order of the request; a user who is named twice gets an error."""
    changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    named = Counter(change.name for change in changes)
    results, records = [], list[MetadataRecord]()
    seen = set[str]()
    pace = Pace(_KEYS_PER_TURN_MAX)
    for change in changes:
        if pace.is_over():
            yield
        if change.name in seen:
            continue
        seen.add(change.name)
        result = AlterUserScramCredentialsResult(user=change.name)
        try:
            if named[change.name] > 1:
                raise KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            level = security_level_records(features, registrations)
            if isinstance(change, ScramCredentialDeletion):
                records.append(_deletion(users, change))
            else:
                records.append(_upsertion(change))
            if level and len(records) == 1:
                records[:0] = level
        except KafkaError as error:
            result.error_code, result.error_message = error.code, str(error)
        results.append(result)
    return Decision(AlterUserScramCredentialsResponse(results=results), records)


def _require_valid(name: str, mechanism: int) -> None:
    if not name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in BY_NUMBER:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def _deletion(users: Users, change: ScramCredentialDeletion) -> RemoveUserScramCredentialRecord:
    _require_valid(change.name, change.mechanism)
    if change.mechanism not in users.get(change.name, {}):
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)


def _upsertion(change: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    _require_valid(change.name, change.mechanism)
    if change.iterations < ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if len(change.name) > NAME_CHARS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Username is longer than {NAME_CHARS_MAX} characters")
    if max(len(change.salt), len(change.salted_password)) > SALT_BYTES_MAX:
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Salt or salted password is longer than {SALT_BYTES_MAX} bytes"
        )
    keys = keys_of(BY_NUMBER[change.mechanism], bytes(change.salted_password))
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=change.iterations,
    )


async def describe_users(
    users: Users, request: DescribeUserScramCredentialsRequest, turns: Turns = NO_TURNS
) -> DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations, no keys. None or no names: all users."""
    named = Counter[str]()
    async for some in in_turns(request.users or (), turns):
        named.update([user.name for user in some])
    results = []
    async for names in in_turns(list(named or users), turns):
        results += [_described(users, name, named[name]) for name in names]
    return DescribeUserScramCredentialsResponse(error_message="", results=results)


def _described(users: Users, name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    keys = users.get(name)
    if keys is None:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {name}",
        )
    infos = [CredentialInfo(mechanism=number, iterations=keys[number].iterations) for number in sorted(keys)]
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
