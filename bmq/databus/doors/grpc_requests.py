"""Requests and answers of the gRPC door as values: messages to records, refusals to codes and status names. Pure."""

from __future__ import annotations

from typing import Final

from bmq.databus.intake_record import NewRecord
from bmq.databus.record_fields import NO_HEADERS, BadFields, encoded_headers
from bmq.databus.rules import Refusal
from bmq.databus.socket_frame import Code
from bmq.databus.v1 import databus_pb2

RECORDS_MAX: Final = 100_000
MESSAGE_CHARACTERS_MAX: Final = 1_000
_STATUS: Final = {
    Code.RETRY: "RESOURCE_EXHAUSTED",
    Code.UNKNOWN_CHANNEL: "NOT_FOUND",
    Code.CHANNEL_DISABLED: "FAILED_PRECONDITION",
    Code.TOPIC_REFUSED: "FAILED_PRECONDITION",
}


def records_of(request: databus_pb2.ProduceRequest) -> list[NewRecord] | Refusal:
    """The records of a request, or why it has none that can be taken."""
    if not request.records:
        return _bad("the request has no record")
    if len(request.records) > RECORDS_MAX:
        return _bad(f"the request has {len(request.records)} records, {RECORDS_MAX} are allowed")
    found = []
    for place, record in enumerate(request.records, 1):
        timestamp_ms = record.timestamp_ms if record.HasField("timestamp_ms") else -1
        if timestamp_ms < -1:
            return _bad(f"record {place} has the time {timestamp_ms} ms; leave timestamp_ms out for the agent's clock")
        try:
            headers = _headers_of(record)
        except BadFields as error:
            return _bad(f"record {place}: {error}")
        key = record.key if record.HasField("key") else None
        value = record.value if record.HasField("value") else None
        found.append(NewRecord(timestamp_ms, key, value, headers))
    return found


def status_of(refusal: Refusal) -> str:
    """The name of a status code of gRPC."""
    return _STATUS.get(refusal.code, "INVALID_ARGUMENT")


def accepted(numbers: list[int], sampled_out: int) -> databus_pb2.ProduceResponse:
    """`numbers`: of the accepted records in their spool, in order."""
    response = databus_pb2.ProduceResponse(accepted=len(numbers), sampled_out=sampled_out)
    if numbers:
        response.first_number, response.last_number = numbers[0], numbers[-1]
    return response


def refused(refusal: Refusal, count: int) -> databus_pb2.ProduceResponse:
    """`count`: records of the request."""
    return databus_pb2.ProduceResponse(
        code=databus_pb2.Code.Name(refusal.code.value),
        dropped=count if refusal.code is Code.DROPPED else 0,
        retry_after_ms=refusal.retry_after_ms,
        message=refusal.sentence[:MESSAGE_CHARACTERS_MAX],
    )


def _headers_of(record: databus_pb2.Record) -> bytes:
    if not record.headers:
        return NO_HEADERS
    return encoded_headers((one.name, one.value if one.HasField("value") else None) for one in record.headers)


def _bad(sentence: str) -> Refusal:
    return Refusal(Code.BAD_FRAME, sentence)
