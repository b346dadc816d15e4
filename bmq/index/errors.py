"""Why a query is not answered: one sentence each, for users. Pure."""

from __future__ import annotations

from typing import ClassVar

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError


class QueryFailed(BmqError):
    """Base class. `status`: of the answer over HTTP."""

    status: ClassVar[int] = 500


class QueryRefused(QueryFailed):
    """The query cannot be answered as it is."""

    code = ErrorCode.INVALID_REQUEST
    status = 422


class QueryTooWide(QueryRefused):
    """The query would read more than is allowed; the message has the estimate."""


class UnknownIndex(QueryFailed):
    """There is no index of this name."""

    status = 404


class IndexMismatch(QueryFailed):
    """The index, its files and its topic do not belong together."""

    status = 409


class QueryTimedOut(QueryFailed):
    """The query took longer than is allowed."""

    code = ErrorCode.REQUEST_TIMED_OUT
    status = 504


class TooManyQueries(QueryFailed):
    """Other queries have all places."""

    status = 503


class SourceAway(QueryFailed):
    """The cluster or the files cannot be read now. That may pass."""

    status = 503
