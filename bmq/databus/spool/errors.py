"""Why a spool cannot be used, or a record cannot be put into it. Pure."""

from __future__ import annotations

from bmq.protocol.errors import BmqError


class SpoolUnusable(BmqError):
    """The directory cannot be used as a spool; one sentence that says what to do."""


class SpoolWriteFailed(BmqError):
    """The disk refused a write. Nothing of it is kept."""
