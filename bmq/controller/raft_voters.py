"""AddRaftVoter and RemoveRaftVoter (KIP-853): there is no quorum, so there are no voters to add or remove. Pure.

Any node with the controller role may become the controller; ZooKeeper elects it. What is answered is what Kafka answers
where the voters are fixed (kraft.version 0), with its checks before that.
"""

from __future__ import annotations

from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import as_message
from bmq.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from bmq.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from bmq.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from bmq.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse

LISTENER_NAME: Final = "CONTROLLER"
"""Of controllers, as DescribeQuorum names it."""


def refuse_add_voter(request: AddRaftVoterRequest, cluster_id: str) -> AddRaftVoterResponse:
    """AddRaftVoter 0-1."""
    code, message = _refusal(request, cluster_id, "Add", "adding")
    if code is ErrorCode.UNSUPPORTED_VERSION and not any(one.name == LISTENER_NAME for one in request.listeners):
        given = ", ".join(f"ListenerName({one.name})={one.host}:{one.port}" for one in request.listeners)
        code, message = (
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{given}}})) for the default listener "
            f"ListenerName({LISTENER_NAME})",
        )
    return AddRaftVoterResponse(error_code=code, error_message=message)


def refuse_remove_voter(request: RemoveRaftVoterRequest, cluster_id: str) -> RemoveRaftVoterResponse:
    """RemoveRaftVoter 0."""
    code, message = _refusal(request, cluster_id, "Remove", "removing")
    return RemoveRaftVoterResponse(error_code=code, error_message=message)


def _refusal(
    request: AddRaftVoterRequest | RemoveRaftVoterRequest, cluster_id: str, verb: str, doing: str
) -> tuple[ErrorCode, str]:
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        message = f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{cluster_id}"'
        return ErrorCode.INCONSISTENT_CLUSTER_ID, as_message(message)
    if request.voter_id < 0 or not (request.voter_directory_id and request.voter_directory_id.int):
        return ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
    return (
        ErrorCode.UNSUPPORTED_VERSION,
        f"Cluster doesn't support {doing} voter because the kraft.version feature is 0",
    )
