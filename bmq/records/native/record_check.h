/* Validates the records of one produced batch, as Kafka's LogValidator does. bmq/records/record_check_twin.py gives the
 * same answers in Python; a change here is a change there.
 */
#ifndef BMQ_RECORD_CHECK_H
#define BMQ_RECORD_CHECK_H

#include "kernel.h"

enum check_rules {
    CHECK_NEEDS_KEY = 1,      /* a record without a key is refused: the topic is compacted */
    CHECK_IS_APPEND_TIME = 2, /* the topic has LogAppendTime: no bounds for the records' own times */
};

enum check_result {
    CHECK_RIGHT = 0,        /* every record is right, and so is the header's greatest time */
    CHECK_OTHER_TIME = 1,   /* every record is right; `max_timestamp_ms` belongs into the header */
    CHECK_REFUSED = 2,      /* the topic refuses `refused_count` of the records */
    CHECK_CUT_SHORT = 3,    /* the body ends before its last record does */
    CHECK_BYTES_LEFT = 4,   /* the body goes on behind its last record */
    CHECK_BAD_COUNT = 5,    /* the header does not count one record or more */
    CHECK_BAD_OFFSET = 6,   /* the records' offset deltas do not count up from 0 */
    CHECK_BAD_VARINT = 7,   /* 7 to 11: record `failed_index` cannot be read, see record.h */
    CHECK_BAD_LENGTH = 8,
    CHECK_FIELD_TOO_LONG = 9,
    CHECK_BAD_HEADERS = 10,
    CHECK_LONGER = 11,
    CHECK_NO_HEADER = 12, /* too few bytes for the header of a batch */
    CHECK_GOES_ON = 13,   /* no fault so far, the next part of the body is due */
};

enum refusal_kind {
    REFUSED_NO_KEY = 1,
    REFUSED_TIME = 2,    /* `timestamp_ms` is out of bounds */
    REFUSED_STAMPED = 3, /* the producer has set LogAppendTime, and no time */
};

struct bmq_refused_record {
    int64_t index;
    int64_t kind;
    int64_t timestamp_ms;
};

struct bmq_batch_check {
    /* In. Times as Kafka's message.timestamp.before.max.ms and after.max.ms. */
    int64_t before_max_ms;
    int64_t after_max_ms;
    int64_t rules;
    struct bmq_refused_record *refused; /* room for the first `refused_max` */
    int64_t refused_max;
    /* Out: the greatest time of the records read (-1: none), the first record that has it, how many are refused, and
     * where reading stopped. */
    int64_t max_timestamp_ms;
    int64_t max_timestamp_index;
    int64_t refused_count;
    int64_t failed_index;
    int64_t failed_position; /* in the body */
};

/* Where the check of a body that comes in parts has got to, all zero before the first part. Between two parts a record may be
 * half read (record_walk.h). */
struct bmq_record_walk {
    int64_t is_begun;
    int64_t index;          /* of the record that is read now, or next */
    int64_t record_place;   /* where it begins in the body */
    int64_t bytes_before;   /* of the body, in the parts before this one */
    int64_t step;           /* the rest is of the record that is half read */
    int64_t left;           /* bytes of it that are not read */
    int64_t field_left;     /* of them, those of the field that is passed over */
    int64_t headers_left;
    uint64_t bits;          /* of the varint that is half read */
    int64_t shift;
    int64_t timestamp_delta;
    int64_t offset_delta;
    int64_t has_key;
    int64_t failure;
};

/* `batch`: header and uncompressed records, `batch_bytes` in all. */
BMQ_EXPORT int32_t bmq_check_batch(
    const uint8_t *batch, size_t batch_bytes, int64_t now_ms, struct bmq_batch_check *check
);

/* `header`: 61 bytes; `body`: the records, decompressed. */
BMQ_EXPORT int32_t bmq_check_opened(
    const uint8_t *header, const uint8_t *body, size_t body_bytes, int64_t now_ms, struct bmq_batch_check *check
);

/* As bmq_check_opened, for a body that comes in parts: the next one, and whether it `is_last`. Any result but CHECK_GOES_ON is the
 * whole body's. `check` and `walk` stay untouched between the parts of a body. */
BMQ_EXPORT int32_t bmq_check_part(
    const uint8_t *header, const uint8_t *part, size_t part_bytes, int32_t is_last, int64_t now_ms,
    struct bmq_batch_check *check, struct bmq_record_walk *walk
);

#endif
