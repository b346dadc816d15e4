"""Calls about the state of share partitions: how they are split among the owners of the shards, and which may be repeated.

Release, initialization, summary, deletion and activation may be sent again: a second one changes nothing more. An acquisition whose
answer was lost may not: its records stay locked until their deadline, and a second one would lock further ones. Nor may an
acknowledgement, which would be refused because it was carried out; the member is told that its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from bmq.protocol import share_state_messages as messages
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.share_state_messages import state_key
from bmq.routing.shard_requests import ShardRequest


class _Form(NamedTuple):
    """What a call's answer is made of."""

    response: Callable[..., Any]
    part: Callable[..., Any]
    is_repeatable: bool = True


_FORMS: Final[dict[ApiKey, _Form]] = {
    ApiKey.SHARE_ACQUIRE: _Form(messages.ShareAcquireResponse, messages.AcquiredPartition, is_repeatable=False),
    ApiKey.SHARE_ACKNOWLEDGE_STATE: _Form(messages.ShareAcknowledgeResponse, messages.StatePart, is_repeatable=False),
    ApiKey.SHARE_RELEASE: _Form(messages.ShareReleaseResponse, messages.StatePart),
    ApiKey.SHARE_INITIALIZE: _Form(messages.ShareInitializeResponse, messages.StatePart),
    ApiKey.SHARE_SUMMARY: _Form(messages.ShareSummaryResponse, messages.PartitionSummary),
    ApiKey.SHARE_DELETE: _Form(messages.ShareDeleteResponse, messages.StatePart),
    ApiKey.SHARE_ACTIVATE: _Form(messages.ShareActivateResponse, messages.StatePart),
    ApiKey.SHARE_EXPLAIN: _Form(messages.ShareExplainResponse, messages.ExplainedPartition),
}


class ShareStateRequest(ShardRequest):
    """A call about partitions of one group."""

    def __init__(self, api_key: ApiKey, request: Any) -> None:
        super().__init__(request, api_version=0)
        self.api_key = api_key
        self._form = _FORMS[api_key]
        named = [(state_key(request.group_id, one.topic_id, one.partition), one) for one in request.partitions]
        self._keys = [key for key, _ in named]
        self._parts = dict(named)

    @property
    def keys(self) -> Sequence[str]:
        return self._keys

    @property
    def is_repeatable(self) -> bool:
        return self._form.is_repeatable

    def about(self, keys: Sequence[str], places: Sequence[int]) -> Any:
        return replace(self.request, partitions=[self.request.partitions[place] for place in places])

    def parts(self, response: Any) -> Sequence[Any]:
        return response.partitions  # type: ignore[no-any-return]

    def refusal(self, key: str, code: ErrorCode) -> Any:
        part = self._parts[key]
        return self._form.part(topic_id=part.topic_id, partition=part.partition, error_code=code)

    def response(self, parts: Sequence[Any]) -> Any:
        return self._form.response(partitions=list(parts))
