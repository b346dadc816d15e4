"""The group APIs: how their requests are split among the coordinators of their groups, and the answers merged.

A request is about one group or many, and an answer has a part for each. These requests may, or may not, be sent again
when the outcome of the first try is unknown:

Heartbeat, OffsetFetch, DescribeGroups  may: a second one changes nothing more.
OffsetCommit     may: it writes the same again; the caller keeps later commits of the member from coming between.
TxnOffsetCommit  likewise, for the producer. While its client waits for the answer the transaction goes on, and the same
                 offsets are pending twice. The owner refuses a try that comes too late: with TV2 each transaction has
                 its own epoch, and before that the owner asks the transaction coordinator
                 (bmq/coordinator/offsets/transaction_gate.py). A commit of an earlier transaction of the same epoch, which that
                 coordinator cannot detect, is kept out like late OffsetCommits: by its age, and by the leader epoch it
                 was sent for.
SyncGroup        may: it is answered by the generation it names, or refused because that is over.
JoinGroup        of a known member may: it replaces the first one. Without a member id it is answered at once with a new
                 one (from version 4 on), or a static member's new id replaces the first. Only an old client's very
                 first
                 JoinGroup may not: it would leave an orphaned member for which a rebalance waits. It is answered
                 COORDINATOR_NOT_AVAILABLE, and the client decides.
LeaveGroup       may: a second one finds no such member, which is answered as success.
ConsumerGroupHeartbeat, StreamsGroupHeartbeat  of a member may not: its epoch may be the previous one by then, which the
                 coordinator accepts only with the owned partitions. Clients name those after an error. The same holds
                 after NOT_COORDINATOR: that node may have been the coordinator until then. Joining dynamically, and
                 leaving, may be repeated.
ConsumerGroupDescribe, StreamsGroupDescribe  may: they change nothing.
StreamsGroupTopologyDescriptionUpdate  may: it sends the same again.
ShareGroupHeartbeat  may: the coordinator accepts the member's previous epoch, and a known member that joins.
ShareGroupDescribe, DescribeShareGroupOffsets  may: they change nothing.
AlterShareGroupOffsets  may: it writes the same again; the group has no members meanwhile, or it is refused.
DeleteShareGroupOffsets  may not: the second one would not find the topic. It is answered COORDINATOR_NOT_AVAILABLE.
DeleteGroups, OffsetDelete  may not: a second one would delete what was committed after the first. Instead the
                 coordinator is asked what is left. If nothing, that is success. Else the answer is REQUEST_TIMED_OUT,
                 which stock clients show their users; after a coordinator error they would retry by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from bmq.coordinator.api.offset_api import failed_fetch, fetch_error
from bmq.coordinator.api.txn_offset_api import refused_transactional
from bmq.coordinator.classic.effects import GroupState, join_error, sync_error
from bmq.coordinator.consumer.member import JOIN_EPOCH
from bmq.coordinator.offsets.offsets import refused
from bmq.coordinator.streams.heartbeat import left
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from bmq.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from bmq.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from bmq.protocol.messages.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from bmq.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
from bmq.protocol.messages.describe_groups_request import DescribeGroupsRequest
from bmq.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from bmq.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from bmq.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)
from bmq.protocol.messages.heartbeat_response import HeartbeatResponse
from bmq.protocol.messages.join_group_request import JoinGroupRequest
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from bmq.protocol.messages.offset_commit_response import OffsetCommitResponse
from bmq.protocol.messages.offset_delete_request import OffsetDeleteRequest
from bmq.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from bmq.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from bmq.protocol.messages.share_group_describe_response import DescribedGroup as DescribedShareGroup
from bmq.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from bmq.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from bmq.protocol.messages.streams_group_describe_response import DescribedGroup as DescribedStreamsGroup
from bmq.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse
from bmq.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from bmq.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from bmq.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from bmq.protocol.messages.sync_group_response import SyncGroupResponse
from bmq.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse
from bmq.protocol.refusals import streams_heartbeat_refused
from bmq.routing.shard_requests import ShardRequest, moving

_MEMBER_ID_REQUIRED_FROM: Final = 4
_BATCH_FETCH_FROM: Final = 8
_CHECK_FETCH_VERSION: Final = 8
_CHECK_DESCRIBE_VERSION: Final = 5  # from 6 on a missing group is an error


class GroupRequest(ShardRequest):
    """A request about groups; this implementation suits an API that names one group."""

    @property
    def keys(self) -> Sequence[str]:
        return self.group_ids

    @property
    def group_ids(self) -> Sequence[str]:
        """One for each part of the answer, in order."""
        return (self.request.group_id,)


class Join(GroupRequest):
    """JoinGroup."""

    api_key = ApiKey.JOIN_GROUP
    waits_for_members = True

    @property
    def is_repeatable(self) -> bool:
        asked: JoinGroupRequest = self.request
        return bool(asked.member_id or asked.group_instance_id or self.api_version >= _MEMBER_ID_REQUIRED_FROM)

    def refusal(self, group_id: str, code: ErrorCode) -> JoinGroupResponse:
        return join_error(code, self.request.member_id)


class Sync(GroupRequest):
    """SyncGroup."""

    api_key = ApiKey.SYNC_GROUP
    waits_for_members = True

    def refusal(self, group_id: str, code: ErrorCode) -> SyncGroupResponse:
        return sync_error(code)


class Heartbeat(GroupRequest):
    """Heartbeat."""

    api_key = ApiKey.HEARTBEAT

    def refusal(self, group_id: str, code: ErrorCode) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=code)


class Leave(GroupRequest):
    """LeaveGroup."""

    api_key = ApiKey.LEAVE_GROUP

    def refusal(self, group_id: str, code: ErrorCode) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=code)

    def repeated(self, part: LeaveGroupResponse) -> LeaveGroupResponse:
        told: list[LeaveGroupResponse | MemberResponse] = [part, *part.members]
        for one in told:
            if one.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                one.error_code = ErrorCode.NONE
        return part


# A coordinator that is lost after the write answers these too, and the member's next epoch may be in the log.
_LOST_IN_THE_MIDDLE: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class ConsumerHeartbeat(GroupRequest):
    """ConsumerGroupHeartbeat."""

    api_key = ApiKey.CONSUMER_GROUP_HEARTBEAT

    @property
    def is_repeatable(self) -> bool:
        asked: ConsumerGroupHeartbeatRequest = self.request
        if asked.member_epoch == JOIN_EPOCH:
            return bool(asked.member_id) and asked.instance_id is None
        return asked.member_epoch < JOIN_EPOCH

    def is_unsure(self, part: ConsumerGroupHeartbeatResponse) -> bool:
        return part.error_code in _LOST_IN_THE_MIDDLE

    def refusal(self, group_id: str, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=code)

    def repeated(self, part: ConsumerGroupHeartbeatResponse) -> ConsumerGroupHeartbeatResponse:
        asked: ConsumerGroupHeartbeatRequest = self.request
        if asked.member_epoch < JOIN_EPOCH and part.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            return ConsumerGroupHeartbeatResponse(member_id=asked.member_id, member_epoch=asked.member_epoch)
        return part


class StreamsHeartbeat(GroupRequest):
    """StreamsGroupHeartbeat."""

    api_key = ApiKey.STREAMS_GROUP_HEARTBEAT

    @property
    def is_repeatable(self) -> bool:
        asked: StreamsGroupHeartbeatRequest = self.request
        if asked.member_epoch == JOIN_EPOCH:
            return asked.instance_id is None
        return asked.member_epoch < JOIN_EPOCH

    def is_unsure(self, part: StreamsGroupHeartbeatResponse) -> bool:
        return part.error_code in _LOST_IN_THE_MIDDLE

    def refusal(self, group_id: str, code: ErrorCode) -> StreamsGroupHeartbeatResponse:
        return streams_heartbeat_refused(code, code.name)

    def repeated(self, part: StreamsGroupHeartbeatResponse) -> StreamsGroupHeartbeatResponse:
        asked: StreamsGroupHeartbeatRequest = self.request
        if asked.member_epoch < JOIN_EPOCH and part.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            return left(asked)
        return part


class Commit(GroupRequest):
    """OffsetCommit: an error of the whole group is set on every partition."""

    api_key = ApiKey.OFFSET_COMMIT

    @property
    def committer(self) -> str:
        """Commits with the same committer are sent one after another."""
        return cast(str, self.request.member_id)

    def code(self, part: Any) -> int:
        return _code_of_commit(part)

    def refusal(self, group_id: str, code: ErrorCode) -> Any:
        return OffsetCommitResponse(topics=refused(self.request.topics, code))


def _code_of_commit(part: Any) -> int:
    return moving(one.error_code for topic in part.topics for one in topic.partitions)


class TransactionalCommit(GroupRequest):
    """TxnOffsetCommit: many producers commit for a group without naming a member."""

    api_key = ApiKey.TXN_OFFSET_COMMIT

    @property
    def committer(self) -> str:
        """As Commit's."""
        return cast(str, self.request.transactional_id)

    def code(self, part: Any) -> int:
        return _code_of_commit(part)

    def refusal(self, group_id: str, code: ErrorCode) -> TxnOffsetCommitResponse:
        return refused_transactional(self.request.topics, code, self.api_version)


class Fetch(GroupRequest):
    """OffsetFetch of one group, before version 8."""

    api_key = ApiKey.OFFSET_FETCH

    def code(self, part: OffsetFetchResponse) -> int:
        return part.error_code or moving(one.error_code for topic in part.topics for one in topic.partitions)

    def refusal(self, group_id: str, code: ErrorCode) -> OffsetFetchResponse:
        return failed_fetch(self.request.topics or (), fetch_error(code), self.api_version)


class DeleteOffsets(GroupRequest):
    """OffsetDelete."""

    api_key = ApiKey.OFFSET_DELETE

    def refusal(self, group_id: str, code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code)

    def is_unsure(self, part: OffsetDeleteResponse) -> bool:
        return part.error_code == ErrorCode.REQUEST_TIMED_OUT

    def check(self) -> GroupRequest:
        return _OffsetsLeft(self.request, _CHECK_FETCH_VERSION)


class _OffsetsLeft(GroupRequest):
    """Checks which of the offsets to be deleted still exist, with an OffsetFetch."""

    api_key = ApiKey.OFFSET_FETCH

    def refusal(self, group_id: str, code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=code)

    def is_unsure(self, part: OffsetDeleteResponse) -> bool:
        return part.error_code == ErrorCode.REQUEST_TIMED_OUT

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> OffsetFetchRequest:
        asked: OffsetDeleteRequest = self.request
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=[p.partition_index for p in topic.partitions])
            for topic in asked.topics
        ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=asked.group_id, topics=topics)])

    def parts(self, response: OffsetFetchResponse) -> Sequence[OffsetDeleteResponse]:
        (group,) = response.groups
        topics = [
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=ErrorCode.NONE if one.committed_offset < 0 else ErrorCode.REQUEST_TIMED_OUT,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ]
        return (OffsetDeleteResponse(error_code=group.error_code, topics=() if group.error_code else topics),)


class FetchMany(GroupRequest):
    """OffsetFetch of any number of groups, from version 8 on."""

    api_key = ApiKey.OFFSET_FETCH

    @property
    def group_ids(self) -> Sequence[str]:
        return [group.group_id for group in self.request.groups]

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> OffsetFetchRequest:
        asked: OffsetFetchRequest = self.request
        return replace(asked, groups=[asked.groups[place] for place in places])

    def parts(self, response: OffsetFetchResponse) -> Sequence[OffsetFetchResponseGroup]:
        return response.groups

    def refusal(self, group_id: str, code: ErrorCode) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=group_id, error_code=fetch_error(code))

    def response(self, parts: Sequence[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=parts)


class Describe(GroupRequest):
    """DescribeGroups."""

    api_key = ApiKey.DESCRIBE_GROUPS

    @property
    def group_ids(self) -> Sequence[str]:
        return cast(Sequence[str], self.request.groups)

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> DescribeGroupsRequest:
        asked: DescribeGroupsRequest = self.request
        return replace(asked, groups=group_ids)

    def parts(self, response: DescribeGroupsResponse) -> Sequence[DescribedGroup]:
        return response.groups

    def refusal(self, group_id: str, code: ErrorCode) -> DescribedGroup:
        return DescribedGroup(group_id=group_id, error_code=code)

    def response(self, parts: Sequence[DescribedGroup]) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=parts)


class DescribeConsumers(GroupRequest):
    """ConsumerGroupDescribe."""

    api_key = ApiKey.CONSUMER_GROUP_DESCRIBE

    @property
    def group_ids(self) -> Sequence[str]:
        return cast(Sequence[str], self.request.group_ids)

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> ConsumerGroupDescribeRequest:
        asked: ConsumerGroupDescribeRequest = self.request
        return replace(asked, group_ids=group_ids)

    def parts(self, response: ConsumerGroupDescribeResponse) -> Sequence[DescribedConsumerGroup]:
        return response.groups

    def refusal(self, group_id: str, code: ErrorCode) -> DescribedConsumerGroup:
        return DescribedConsumerGroup(group_id=group_id, error_code=code)

    def response(self, parts: Sequence[DescribedConsumerGroup]) -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(groups=parts)


class DescribeStreams(GroupRequest):
    """StreamsGroupDescribe."""

    api_key = ApiKey.STREAMS_GROUP_DESCRIBE

    @property
    def group_ids(self) -> Sequence[str]:
        return cast(Sequence[str], self.request.group_ids)

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> StreamsGroupDescribeRequest:
        asked: StreamsGroupDescribeRequest = self.request
        return replace(asked, group_ids=group_ids)

    def parts(self, response: StreamsGroupDescribeResponse) -> Sequence[DescribedStreamsGroup]:
        return response.groups

    def refusal(self, group_id: str, code: ErrorCode) -> DescribedStreamsGroup:
        return DescribedStreamsGroup(group_id=group_id, error_code=code)

    def response(self, parts: Sequence[DescribedStreamsGroup]) -> StreamsGroupDescribeResponse:
        return StreamsGroupDescribeResponse(groups=parts)


class ShareHeartbeat(GroupRequest):
    """ShareGroupHeartbeat: a repeated one is answered by the present epoch, or by the one before."""

    api_key = ApiKey.SHARE_GROUP_HEARTBEAT

    def refusal(self, group_id: str, code: ErrorCode) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(error_code=code)

    def repeated(self, part: ShareGroupHeartbeatResponse) -> ShareGroupHeartbeatResponse:
        asked: ShareGroupHeartbeatRequest = self.request
        if asked.member_epoch < JOIN_EPOCH and part.error_code in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            return ShareGroupHeartbeatResponse(member_id=asked.member_id, member_epoch=asked.member_epoch)
        return part


class DescribeShares(GroupRequest):
    """ShareGroupDescribe."""

    api_key = ApiKey.SHARE_GROUP_DESCRIBE

    @property
    def group_ids(self) -> Sequence[str]:
        return cast(Sequence[str], self.request.group_ids)

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> ShareGroupDescribeRequest:
        asked: ShareGroupDescribeRequest = self.request
        return replace(asked, group_ids=group_ids)

    def parts(self, response: ShareGroupDescribeResponse) -> Sequence[DescribedShareGroup]:
        return response.groups

    def refusal(self, group_id: str, code: ErrorCode) -> DescribedShareGroup:
        return DescribedShareGroup(group_id=group_id, error_code=code)

    def response(self, parts: Sequence[DescribedShareGroup]) -> ShareGroupDescribeResponse:
        return ShareGroupDescribeResponse(groups=parts)


class DescribeShareOffsets(GroupRequest):
    """DescribeShareGroupOffsets."""

    api_key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS

    @property
    def group_ids(self) -> Sequence[str]:
        asked: DescribeShareGroupOffsetsRequest = self.request
        return [one.group_id for one in asked.groups]

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> DescribeShareGroupOffsetsRequest:
        asked: DescribeShareGroupOffsetsRequest = self.request
        return replace(asked, groups=[asked.groups[place] for place in places])

    def parts(self, response: DescribeShareGroupOffsetsResponse) -> Sequence[DescribeShareGroupOffsetsResponseGroup]:
        return response.groups

    def refusal(self, group_id: str, code: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
        return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=code)

    def response(self, parts: Sequence[DescribeShareGroupOffsetsResponseGroup]) -> DescribeShareGroupOffsetsResponse:
        return DescribeShareGroupOffsetsResponse(groups=parts)


class AlterShareOffsets(GroupRequest):
    """AlterShareGroupOffsets: a second one writes the same again, as the group has no members."""

    api_key = ApiKey.ALTER_SHARE_GROUP_OFFSETS

    def refusal(self, group_id: str, code: ErrorCode) -> AlterShareGroupOffsetsResponse:
        return AlterShareGroupOffsetsResponse(error_code=code)


class DeleteShareOffsets(GroupRequest):
    """DeleteShareGroupOffsets. A second one would not find what the first has deleted."""

    api_key = ApiKey.DELETE_SHARE_GROUP_OFFSETS
    is_repeatable = False

    def refusal(self, group_id: str, code: ErrorCode) -> DeleteShareGroupOffsetsResponse:
        return DeleteShareGroupOffsetsResponse(error_code=code)


class DescribeTopology(GroupRequest):
    """StreamsGroupTopologyDescriptionUpdate."""

    api_key = ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE

    def refusal(self, group_id: str, code: ErrorCode) -> StreamsGroupTopologyDescriptionUpdateResponse:
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=code, error_message=code.name)


class Delete(GroupRequest):
    """DeleteGroups; a group that is named twice is deleted and answered once."""

    api_key = ApiKey.DELETE_GROUPS

    @property
    def group_ids(self) -> Sequence[str]:
        return list(dict.fromkeys(self.request.groups_names))

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> DeleteGroupsRequest:
        asked: DeleteGroupsRequest = self.request
        return replace(asked, groups_names=group_ids)

    def parts(self, response: DeleteGroupsResponse) -> Sequence[DeletableGroupResult]:
        return response.results

    def refusal(self, group_id: str, code: ErrorCode) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=group_id, error_code=code, error_message=code.name)

    def is_unsure(self, part: DeletableGroupResult) -> bool:
        return part.error_code == ErrorCode.REQUEST_TIMED_OUT

    def check(self) -> GroupRequest:
        return _GroupsLeft(self.request, _CHECK_DESCRIBE_VERSION)

    def response(self, parts: Sequence[DeletableGroupResult]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=parts)


class _GroupsLeft(GroupRequest):
    """Checks which of the groups to be deleted still exist, with a DescribeGroups."""

    api_key = ApiKey.DESCRIBE_GROUPS

    @property
    def group_ids(self) -> Sequence[str]:
        return list(dict.fromkeys(self.request.groups_names))

    def about(self, group_ids: Sequence[str], places: Sequence[int]) -> Any:
        return DescribeGroupsRequest(groups=group_ids)

    def parts(self, response: Any) -> Sequence[DeletableGroupResult]:
        return [
            self.refusal(group.group_id, ErrorCode(group.error_code or _code_of_what_is_left(group)))
            for group in response.groups
        ]

    def refusal(self, group_id: str, code: ErrorCode) -> DeletableGroupResult:
        if not code:
            return DeletableGroupResult(group_id=group_id)
        return DeletableGroupResult(group_id=group_id, error_code=code, error_message=code.name)

    def is_unsure(self, part: DeletableGroupResult) -> bool:
        return part.error_code == ErrorCode.REQUEST_TIMED_OUT

    def response(self, parts: Sequence[DeletableGroupResult]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=parts)


def _code_of_what_is_left(group: DescribedGroup) -> ErrorCode:
    # DescribeGroups shows a group of a new protocol as Dead, but with its protocol type.
    is_gone = group.group_state == GroupState.DEAD.value and not group.protocol_type
    return ErrorCode.NONE if is_gone else ErrorCode.REQUEST_TIMED_OUT


def group_request(api_key: ApiKey, request: Any, api_version: int) -> GroupRequest:
    """Wrap a client's request for routing. KeyError for an API that is not routed this way."""
    if api_key is ApiKey.OFFSET_FETCH and api_version >= _BATCH_FETCH_FROM:
        return FetchMany(request, api_version)
    return _FORMS[api_key](request, api_version)


_FORMS: Final[dict[ApiKey, type[GroupRequest]]] = {
    form.api_key: form
    for form in (
        *(Join, Sync, Heartbeat, Leave, Commit, TransactionalCommit, Fetch, DeleteOffsets, Describe, Delete),
        *(ConsumerHeartbeat, DescribeConsumers, StreamsHeartbeat, DescribeStreams, DescribeTopology),
        *(ShareHeartbeat, DescribeShares, DescribeShareOffsets, AlterShareOffsets, DeleteShareOffsets),
    )
}
