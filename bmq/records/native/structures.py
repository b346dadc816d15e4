"""The structures of native/*.h and *.c as ctypes has them."""

from __future__ import annotations

import ctypes

_Pointer = ctypes.c_void_p
_Int64 = ctypes.c_int64


class Bodies(ctypes.Structure):
    """struct bmq_bodies"""

    _fields_ = (
        ("data", _Pointer),
        ("data_bytes", _Int64),
        ("batches", _Pointer),
        ("starts", _Pointer),
        ("ends", _Pointer),
        ("count", _Int64),
    )


class Scan(ctypes.Structure):
    """struct bmq_scan"""

    _fields_ = (
        ("place", _Int64),
        ("count", _Int64),
        ("rows", _Int64),
        ("size_bytes", _Int64),
        ("last_offset", _Int64),
        ("why", _Int64),
    )


class KeyMap(ctypes.Structure):
    """struct bmq_key_map"""

    _fields_ = (
        ("slots", _Pointer),
        ("slot_count", _Int64),
        ("count", _Int64),
        ("count_max", _Int64),
        ("base_offset", _Int64),
        ("key0", ctypes.c_uint64),
        ("key1", ctypes.c_uint64),
    )


class Noting(ctypes.Structure):
    """struct bmq_noting"""

    _fields_ = (("number", _Int64), ("full_offset", _Int64))


class Retained(ctypes.Structure):
    """struct bmq_retained"""

    _fields_ = (
        ("bytes", _Int64),
        ("count", _Int64),
        ("base_timestamp_ms", _Int64),
        ("max_timestamp_ms", _Int64),
    )


class Columns(ctypes.Structure):
    """struct bmq_columns"""

    _fields_ = (
        ("rows_max", _Int64),
        ("offsets", _Pointer),
        ("timestamps", _Pointer),
        ("key_views", _Pointer),
        ("key_nulls", _Pointer),
        ("value_views", _Pointer),
        ("value_nulls", _Pointer),
        ("header_places", _Pointer),
        ("header_offsets", _Pointer),
    )


class Binary(ctypes.Structure):
    """struct bmq_binary"""

    _fields_ = (("data", _Pointer), ("data_bytes", _Int64), ("offsets", _Pointer), ("nulls", _Pointer))


class Table(ctypes.Structure):
    """struct bmq_table"""

    _fields_ = (
        ("offsets", _Pointer),
        ("timestamps", _Pointer),
        ("header_offsets", _Pointer),
        ("keys", Binary),
        ("values", Binary),
        ("names", Binary),
        ("contents", Binary),
        ("header_count", _Int64),
    )


class Written(ctypes.Structure):
    """struct bmq_written"""

    _fields_ = (("bytes", _Int64), ("row", _Int64), ("max_timestamp_ms", _Int64))


class KeyWindow(ctypes.Structure):
    """struct bmq_key_window"""

    _fields_ = (
        ("states", _Pointer),
        ("numbers", _Pointer),
        ("hashes", _Pointer),
        ("mine", _Pointer),
        ("owners", _Pointer),
        ("blocked", _Pointer),
        ("state_count", _Int64),
        ("hash_count", _Int64),
        ("low", _Int64),
        ("first", _Int64),
        ("end", _Int64),
        ("me", _Int64),
    )


class KeyTaken(ctypes.Structure):
    """struct bmq_key_taken"""

    _fields_ = (
        ("span_count", _Int64),
        ("taken", _Int64),
        ("next", _Int64),
        ("unknown", _Int64),
        ("waiting", _Int64),
    )


class DelayTerms(ctypes.Structure):
    """struct bmq_delay_terms"""

    _fields_ = (
        ("levels_ms", _Pointer),
        ("level_count", _Int64),
        ("now_ms", _Int64),
        ("delay_max_ms", _Int64),
        ("time_max_ms", _Int64),
        ("floor_ms", _Int64),
        ("base_timestamp_ms", _Int64),
        ("append_time_ms", _Int64),
        ("has_append_time", _Int64),
    )


class DelaySplit(ctypes.Structure):
    """struct bmq_delay_split"""

    _fields_ = (
        ("held_count", _Int64),
        ("held_bytes", _Int64),
        ("kept_count", _Int64),
        ("kept_bytes", _Int64),
        ("newest_ms", _Int64),
    )


class RecordFilter(ctypes.Structure):
    """struct bmq_record_filter"""

    _fields_ = (
        ("texts", _Pointer),
        ("strings", _Pointer),
        ("terms", _Pointer),
        ("term_count", _Int64),
        ("truths", ctypes.c_uint64),
    )


class FilteredRecords(ctypes.Structure):
    """struct bmq_passing"""

    _fields_ = (("place", _Int64), ("previous", _Int64), ("run_count", _Int64), ("passed", _Int64))


class DueTerms(ctypes.Structure):
    """struct bmq_due_terms"""

    _fields_ = (
        ("base_offset", _Int64),
        ("bodies_bytes", _Int64),
        ("start", _Int64),
        ("above_ms", _Int64),
        ("above_name", _Int64),
        ("until_ms", _Int64),
        ("until_name", _Int64),
    )


class DeliveredPart(ctypes.Structure):
    """struct bmq_delivered_part"""

    _fields_ = (("data", _Pointer), ("bytes", _Int64))


class Showing(ctypes.Structure):
    """struct bmq_showing"""

    _fields_ = (("place", _Int64), ("offset", _Int64), ("count", _Int64), ("out_bytes", _Int64))
