/* A record that lies in several parts of its body: its fields are read byte by byte, and reading goes on with the next part.
 *
 * The walk gives what read_record gives for the same bytes in one piece. A record that cannot be read is passed over first,
 * as one that the body cuts short is called cut short, whatever its fields are.
 */
#ifndef BMQ_RECORD_WALK_H
#define BMQ_RECORD_WALK_H

#include "record_check.h"
#include "record.h"

enum walk_step {
    WALK_LENGTH = 0, /* of the record: with no byte of it read, between two records */
    WALK_ATTRIBUTES,
    WALK_TIMESTAMP,
    WALK_OFFSET,
    WALK_KEY_LENGTH,
    WALK_KEY,
    WALK_VALUE_LENGTH,
    WALK_VALUE,
    WALK_HEADER_COUNT,
    WALK_NAME_LENGTH,
    WALK_NAME,
    WALK_CONTENT_LENGTH,
    WALK_CONTENT,
    WALK_END,
    WALK_FAILED, /* `failure` says how; the rest of the record is passed over */
};

/* The varint at `*at`, of which earlier parts may have had the first bytes. CUT_SHORT: all bytes are taken, more are due. */
static inline enum varint_result walk_varint(
    const uint8_t **at, const uint8_t *end, struct bmq_record_walk *walk, int64_t last_shift, uint8_t last_byte_max,
    uint64_t *raw
) {
    while (*at < end) {
        const uint8_t byte = *(*at)++;
        if (walk->shift == last_shift && byte > last_byte_max)
            return VARINT_TOO_LONG;
        walk->bits |= (uint64_t)(byte & 0x7f) << walk->shift;
        if (byte < 0x80) {
            *raw = walk->bits;
            walk->bits = 0;
            walk->shift = 0;
            return VARINT_READ;
        }
        walk->shift += 7;
    }
    return VARINT_CUT_SHORT;
}

static inline void fail_walk(struct bmq_record_walk *walk, enum record_result failure) {
    walk->failure = (int64_t)failure;
    walk->step = WALK_FAILED;
}

/* Takes the length of a field: -1 for none, which only the name of a header may not be. */
static inline void begin_field(struct bmq_record_walk *walk, int32_t length) {
    if (length < -1)
        fail_walk(walk, RECORD_BAD_LENGTH);
    else if (length < 0 && walk->step == WALK_NAME_LENGTH)
        fail_walk(walk, RECORD_BAD_HEADERS);
    else if (length > walk->left)
        fail_walk(walk, RECORD_FIELD_TOO_LONG);
    else {
        if (walk->step == WALK_KEY_LENGTH)
            walk->has_key = length >= 0;
        walk->field_left = length < 0 ? 0 : length;
        walk->step++;
    }
}

static inline void take_number(struct bmq_record_walk *walk, uint64_t raw) {
    switch (walk->step) {
    case WALK_TIMESTAMP:
        walk->timestamp_delta = zigzag64(raw);
        walk->step = WALK_OFFSET;
        break;
    case WALK_OFFSET:
        walk->offset_delta = zigzag32((uint32_t)raw);
        walk->step = WALK_KEY_LENGTH;
        break;
    case WALK_HEADER_COUNT:
        walk->headers_left = zigzag32((uint32_t)raw);
        if (walk->headers_left < 0 || walk->headers_left > walk->left)
            fail_walk(walk, RECORD_BAD_HEADERS);
        else
            walk->step = walk->headers_left ? WALK_NAME_LENGTH : WALK_END;
        break;
    default:
        begin_field(walk, zigzag32((uint32_t)raw));
    }
}

static inline void end_field(struct bmq_record_walk *walk) {
    if (walk->step != WALK_CONTENT)
        walk->step++;
    else
        walk->step = --walk->headers_left ? WALK_NAME_LENGTH : WALK_END;
}

/* Goes on with a record. RECORD_READ: it ends at `*at`, and the walk has its fields. RECORD_CUT_SHORT: all bytes are taken, and
 * the next part has more of it. */
static inline enum record_result walk_record(const uint8_t **at, const uint8_t *end, struct bmq_record_walk *walk) {
    uint64_t raw = 0;
    for (;;) {
        /* Of what is here, what belongs to the record. */
        const uint8_t *const begin = *at;
        const int64_t here = end - begin < walk->left ? end - begin : walk->left;
        switch (walk->step) {
        case WALK_LENGTH:
            switch (walk_varint(at, end, walk, 28, 0x0f, &raw)) {
            case VARINT_READ:
                break;
            case VARINT_CUT_SHORT:
                return RECORD_CUT_SHORT;
            default:
                return RECORD_BAD_VARINT;
            }
            walk->left = zigzag32((uint32_t)raw);
            if (walk->left < 0)
                return RECORD_BAD_LENGTH;
            if (walk->left == 0)
                return RECORD_BAD_VARINT;
            walk->step = WALK_ATTRIBUTES;
            continue;
        case WALK_ATTRIBUTES:
            if (!here)
                return RECORD_CUT_SHORT;
            *at = begin + 1;
            walk->left--;
            walk->step = WALK_TIMESTAMP;
            continue;
        case WALK_KEY:
        case WALK_VALUE:
        case WALK_NAME:
        case WALK_CONTENT: {
            const int64_t taken = here < walk->field_left ? here : walk->field_left;
            *at = begin + taken;
            walk->left -= taken;
            walk->field_left -= taken;
            if (walk->field_left)
                return RECORD_CUT_SHORT;
            end_field(walk);
            continue;
        }
        case WALK_END:
            if (!walk->left) {
                walk->step = WALK_LENGTH;
                return RECORD_READ;
            }
            fail_walk(walk, RECORD_LONGER);
            continue;
        case WALK_FAILED:
            *at = begin + here;
            walk->left -= here;
            return walk->left ? RECORD_CUT_SHORT : (enum record_result)walk->failure;
        default: {
            const int is_long = walk->step == WALK_TIMESTAMP;
            enum varint_result result =
                walk_varint(at, begin + here, walk, is_long ? 63 : 28, is_long ? 1 : 0x0f, &raw);
            walk->left -= *at - begin;
            if (result == VARINT_READ)
                take_number(walk, raw);
            else if (result == VARINT_TOO_LONG || !walk->left)
                fail_walk(walk, RECORD_BAD_VARINT);
            else
                return RECORD_CUT_SHORT;
        }
        }
    }
}

#endif
