"""Chooses who checks batches: the kernel, or its Python twin where there is no kernel."""

from __future__ import annotations

from bmq.records.native.library import kernel
from bmq.records.record_check import BatchCheck, Rules
from bmq.records.record_check_native import NativeCheck
from bmq.records.record_check_twin import TwinCheck


def record_check(rules: Rules, before_max_ms: int, after_max_ms: int) -> BatchCheck:
    """A check of one topic's batches, for one thread.

    Records may be `before_max_ms` older than now and `after_max_ms` newer; both are Kafka's message.timestamp settings.
    """
    library = kernel().library
    if library is None:
        return TwinCheck(rules, before_max_ms, after_max_ms)
    return NativeCheck(library, rules, before_max_ms, after_max_ms)
