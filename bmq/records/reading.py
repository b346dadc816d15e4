"""Finds record batches in bytes. By the kernel in C, or its twin where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.records_twin import scan_batches
else:
    from bmq.records.reading_native import scan_batches

__all__ = ["scan_batches"]
