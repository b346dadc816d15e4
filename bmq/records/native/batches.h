/* Record batches in memory: where they lie, what their headers say, and a reader of single records that trusts nothing.
 *
 * Each function gets the bytes and how many there are, and looks at no other. Statuses are 0, or the negative of a kind of
 * damage; nothing is allocated. Source: Kafka's DefaultRecordBatch and DefaultRecord.
 */
#ifndef BMQ_BATCHES_H
#define BMQ_BATCHES_H

#include <stdint.h>
#include <string.h>

#include "byte_order.h"
#include "varint.h"

#define BMQ_HEADER_BYTES 61
#define BMQ_LENGTH_OVERHEAD_BYTES 12

#define BMQ_CODEC_MASK 7
#define BMQ_CODEC_MAX 4
#define BMQ_LOG_APPEND_TIME (1 << 3)
#define BMQ_CONTROL (1 << 5)
#define BMQ_DELETE_HORIZON (1 << 6)

/* Kinds of damage to a record. Keep in step with bmq/records/batch_layout.py. */
#define BMQ_CUT 1
#define BMQ_LONG_VARINT 2
#define BMQ_BAD_LENGTH 3
#define BMQ_WRONG_END 4
#define BMQ_OFFSETS_DO_NOT_GROW 5
#define BMQ_BAD_HEADERS 6
#define BMQ_BYTES_LEFT 7
/* The caller's own numbers contradict each other: never of bytes that were read. */
#define BMQ_BAD_CALL 100

#define BMQ_WANTS_TIMESTAMP 1
#define BMQ_WANTS_KEY 2
#define BMQ_WANTS_VALUE 4
#define BMQ_WANTS_HEADERS 8

#if defined(__GNUC__)
#define BMQ_INLINE static inline __attribute__((always_inline))
#define BMQ_LIKELY(what) __builtin_expect(!!(what), 1)
#define BMQ_PREFETCH(place) __builtin_prefetch(place)
#else
#define BMQ_INLINE static inline
#define BMQ_LIKELY(what) (what)
#define BMQ_PREFETCH(place) ((void)(place))
#endif

/* A batch's header in the machine's byte order, with the fields of bmq.protocol.record_batch.BatchHeader in their order, and
 * where the batch begins. Keep in step with bmq/records/batch_layout.py. */
struct bmq_batch {
    int64_t base_offset;
    int32_t length;
    int32_t leader_epoch;
    int32_t magic;
    uint32_t crc;
    int32_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp_ms;
    int64_t max_timestamp_ms;
    int64_t producer_id;
    int32_t producer_epoch;
    int32_t base_sequence;
    int32_t record_count;
    int32_t unused;
    int64_t place;
};

/* The bodies of batches: `starts` and `ends` in `data`, one each per batch. */
struct bmq_bodies {
    const uint8_t *data;
    int64_t data_bytes;
    const struct bmq_batch *batches;
    const int64_t *starts;
    const int64_t *ends;
    int64_t count;
};

/* One record: where its parts begin. A length of -1 is null. */
struct bmq_record {
    int64_t stop;
    int64_t timestamp_delta;
    int64_t behind_timestamp;
    int64_t offset_delta;
    int64_t key;
    int64_t key_bytes;
    int64_t value;
    int64_t value_bytes;
    int64_t headers;
    int64_t header_count;
};

/* Where the zigzag varint of up to 64 bits at `place` ends; negative if it is damaged. */
BMQ_INLINE int64_t bmq_get_varint(const uint8_t *data, int64_t place, int64_t end, int64_t *value) {
    const uint8_t *at;
    if (place >= end) {
        return -BMQ_CUT;
    }
    at = data + place;
    if (*at < 0x80) { /* most have one byte */
        *value = zigzag64(*at);
        return place + 1;
    }
    if (end - place >= 2 && at[1] < 0x80) { /* lengths of up to 8 KiB have two */
        *value = zigzag64((uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7);
        return place + 2;
    }
    switch (read_varint64(&at, data + end, value)) {
    case VARINT_READ:
        return at - data;
    case VARINT_CUT_SHORT:
        return -BMQ_CUT;
    default:
        return -BMQ_LONG_VARINT;
    }
}

BMQ_INLINE uint64_t bmq_zigzag(int64_t value) {
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

BMQ_INLINE int64_t bmq_varint_bytes(int64_t value) {
    uint64_t raw = bmq_zigzag(value);
    int64_t count = 1;
    while (raw > 127) {
        raw >>= 7;
        count++;
    }
    return count;
}

/* Where it ends. There has to be room for it: ask bmq_varint_bytes. */
BMQ_INLINE int64_t bmq_put_varint(uint8_t *out, int64_t place, int64_t value) {
    uint64_t raw = bmq_zigzag(value);
    while (raw > 127) {
        out[place++] = (uint8_t)(raw | 128);
        raw >>= 7;
    }
    out[place++] = (uint8_t)raw;
    return place;
}

/* Sums wrap as Kafka's do. */
BMQ_INLINE int64_t bmq_sum(int64_t one, int64_t other) {
    return (int64_t)((uint64_t)one + (uint64_t)other);
}

BMQ_INLINE int64_t bmq_difference(int64_t one, int64_t other) {
    return (int64_t)((uint64_t)one - (uint64_t)other);
}

/* Reads the length of a field and skips the field: where it ends, negative if it is damaged. */
BMQ_INLINE int64_t bmq_get_field(const uint8_t *data, int64_t place, int64_t stop, int64_t *begins, int64_t *length) {
    place = bmq_get_varint(data, place, stop, length);
    if (place < 0) {
        return place;
    }
    if (*length < -1 || *length > stop - place) {
        return -BMQ_BAD_LENGTH;
    }
    *begins = place;
    return *length > 0 ? place + *length : place;
}

/* Where the record headers at `place` end; negative if they are damaged. */
BMQ_INLINE int64_t bmq_skip_headers(const uint8_t *data, int64_t place, int64_t stop, int64_t *count) {
    int64_t length, number;
    place = bmq_get_varint(data, place, stop, count);
    if (place < 0) {
        return place;
    }
    if (*count < 0 || *count > stop - place) {
        return -BMQ_BAD_HEADERS;
    }
    for (number = 0; number < *count; number++) {
        place = bmq_get_varint(data, place, stop, &length);
        if (place < 0) {
            return place;
        }
        if (length < 0 || length > stop - place) {
            return -BMQ_BAD_HEADERS;
        }
        place = bmq_get_varint(data, place + length, stop, &length);
        if (place < 0) {
            return place;
        }
        if (length < -1 || length > stop - place) {
            return -BMQ_BAD_HEADERS;
        }
        place += length > 0 ? length : 0;
    }
    return place;
}

/* Reads the record at `place`, as far as `wanted` says; headers last, and then all of it is checked. `previous` is the
 * delta of the record before it, -1 before the first one, and is replaced. */
BMQ_INLINE int64_t bmq_get_record(const uint8_t *data, int64_t place, int64_t end, int wanted, int64_t last_delta,
                                  int64_t *previous, struct bmq_record *record) {
    int64_t length, stop;
    place = bmq_get_varint(data, place, end, &length);
    if (place < 0) {
        return place;
    }
    if (length < 1 || length > end - place) {
        return -BMQ_CUT;
    }
    stop = record->stop = place + length;
    /* The first byte holds attributes that nobody uses. */
    place = bmq_get_varint(data, place + 1, stop, &record->timestamp_delta);
    if (place < 0) {
        return place;
    }
    record->behind_timestamp = place;
    place = bmq_get_varint(data, place, stop, &record->offset_delta);
    if (place < 0) {
        return place;
    }
    if (record->offset_delta <= *previous || record->offset_delta > last_delta) {
        return -BMQ_OFFSETS_DO_NOT_GROW;
    }
    *previous = record->offset_delta;
    if (wanted >= BMQ_WANTS_KEY) {
        place = bmq_get_field(data, place, stop, &record->key, &record->key_bytes);
        if (place < 0) {
            return place;
        }
    }
    if (wanted >= BMQ_WANTS_VALUE) {
        place = bmq_get_field(data, place, stop, &record->value, &record->value_bytes);
        if (place < 0) {
            return place;
        }
    }
    if (wanted >= BMQ_WANTS_HEADERS) {
        record->headers = place;
        place = bmq_skip_headers(data, place, stop, &record->header_count);
        if (place < 0) {
            return place;
        }
        if (place != stop) {
            return -BMQ_WRONG_END;
        }
    }
    return stop;
}

/* Whether a batch's body lies in the data. */
BMQ_INLINE int bmq_is_body_inside(const struct bmq_bodies *bodies, int64_t number) {
    return bodies->starts[number] >= 0 && bodies->starts[number] <= bodies->ends[number] &&
           bodies->ends[number] <= bodies->data_bytes && bodies->batches[number].record_count >= 0;
}

#endif
