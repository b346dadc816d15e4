#include "record_check.h"

#include "byte_order.h"
#include "record.h"
#include "record_walk.h"

#define HEADER_BYTES 61
#define ATTRIBUTES_PLACE 21
#define BASE_TIMESTAMP_PLACE 27
#define MAX_TIMESTAMP_PLACE 35
#define RECORD_COUNT_PLACE 57
#define LOG_APPEND_TIME 8
#define NO_TIMESTAMP (-1)

/* Differences and sums of times wrap, as Java's do. */
static int64_t difference(int64_t one, int64_t other) {
    return (int64_t)((uint64_t)one - (uint64_t)other);
}

static int is_out_of_bounds(int64_t timestamp_ms, int64_t now_ms, const struct bmq_batch_check *check) {
    return difference(now_ms, timestamp_ms) > check->before_max_ms
           || difference(timestamp_ms, now_ms) > check->after_max_ms;
}

static int32_t result_of(enum record_result result) {
    switch (result) {
    case RECORD_CUT_SHORT:
        return CHECK_CUT_SHORT;
    case RECORD_BAD_LENGTH:
        return CHECK_BAD_LENGTH;
    case RECORD_FIELD_TOO_LONG:
        return CHECK_FIELD_TOO_LONG;
    case RECORD_BAD_HEADERS:
        return CHECK_BAD_HEADERS;
    case RECORD_LONGER:
        return CHECK_LONGER;
    default:
        return CHECK_BAD_VARINT;
    }
}

static void refuse(struct bmq_batch_check *check, int64_t index, int64_t kind, int64_t timestamp_ms) {
    if (check->refused_count < check->refused_max) {
        struct bmq_refused_record *refused = &check->refused[check->refused_count];
        refused->index = index;
        refused->kind = kind;
        refused->timestamp_ms = timestamp_ms;
    }
    check->refused_count++;
}

/* The part's records. `is_last` is a constant of each caller, so that a body in one piece pays nothing for the walk. */
static inline __attribute__((always_inline)) int32_t check_part(
    const uint8_t *header, const uint8_t *part, size_t part_bytes, const int is_last, int64_t now_ms,
    struct bmq_batch_check *check, struct bmq_record_walk *walk
) {
    const int64_t base_timestamp_ms = (int64_t)load_be64(header + BASE_TIMESTAMP_PLACE);
    const int64_t header_timestamp_ms = (int64_t)load_be64(header + MAX_TIMESTAMP_PLACE);
    const int32_t record_count = (int32_t)load_be32(header + RECORD_COUNT_PLACE);
    const int is_stamped = (header[ATTRIBUTES_PLACE + 1] & LOG_APPEND_TIME) != 0;
    const int is_append_time = (check->rules & CHECK_IS_APPEND_TIME) != 0;
    const int needs_key = (check->rules & CHECK_NEEDS_KEY) != 0;
    const uint8_t *place = part; /* behind the last record that was read whole */
    const uint8_t *const end = part + part_bytes;
    int64_t max_timestamp_ms = NO_TIMESTAMP;
    int64_t max_timestamp_index = 0;
    int64_t index = walk->index;
    int is_inside = walk->step != WALK_LENGTH || walk->shift != 0;
    int32_t result = CHECK_RIGHT;

    if (walk->is_begun) {
        max_timestamp_ms = check->max_timestamp_ms;
        max_timestamp_index = check->max_timestamp_index;
    } else {
        walk->is_begun = 1;
        check->refused_count = 0;
        if (record_count <= 0)
            result = CHECK_BAD_COUNT;
    }
    for (; index < record_count; index++) {
        struct record record;
        const uint8_t *next = place;
        enum record_result read = RECORD_CUT_SHORT;
        if (!is_inside)
            read = read_record(&next, end, &record);
        if (read == RECORD_CUT_SHORT && (is_inside || !is_last)) {
            if (!is_inside)
                walk->record_place = walk->bytes_before + (place - part);
            is_inside = 1;
            next = place;
            read = walk_record(&next, end, walk);
            if (read == RECORD_CUT_SHORT && !is_last) {
                result = CHECK_GOES_ON;
                break;
            }
            record.timestamp_delta = walk->timestamp_delta;
            record.offset_delta = (int32_t)walk->offset_delta;
            record.key = walk->has_key ? part : NULL;
        }
        if (read != RECORD_READ) {
            result = result_of(read);
            break;
        }
        if (record.offset_delta != index) {
            result = CHECK_BAD_OFFSET;
            break;
        }
        is_inside = 0;
        place = next;
        int64_t timestamp_ms = (int64_t)((uint64_t)base_timestamp_ms + (uint64_t)record.timestamp_delta);
        if (timestamp_ms > max_timestamp_ms) {
            max_timestamp_ms = timestamp_ms;
            max_timestamp_index = index;
        }
        /* A producer's LogAppendTime gives all records the header's greatest time until it is taken away. */
        int64_t claimed_ms = is_stamped ? header_timestamp_ms : timestamp_ms;
        if (needs_key && record.key == NULL)
            refuse(check, index, REFUSED_NO_KEY, claimed_ms);
        else if (is_stamped && (is_append_time || claimed_ms == NO_TIMESTAMP))
            refuse(check, index, REFUSED_STAMPED, claimed_ms);
        else if (!is_append_time && claimed_ms != NO_TIMESTAMP && is_out_of_bounds(claimed_ms, now_ms, check))
            refuse(check, index, REFUSED_TIME, claimed_ms);
    }
    if (!is_inside)
        walk->record_place = walk->bytes_before + (place - part);
    walk->index = index;
    walk->bytes_before += (int64_t)part_bytes;
    check->max_timestamp_ms = max_timestamp_ms;
    check->max_timestamp_index = max_timestamp_index;
    check->failed_index = index;
    check->failed_position = walk->record_place;
    if (result != CHECK_RIGHT)
        return result;
    if (place != end)
        return CHECK_BYTES_LEFT;
    if (!is_last)
        return CHECK_GOES_ON;
    if (check->refused_count)
        return CHECK_REFUSED;
    return max_timestamp_ms == header_timestamp_ms ? CHECK_RIGHT : CHECK_OTHER_TIME;
}

int32_t bmq_check_part(
    const uint8_t *header, const uint8_t *part, size_t part_bytes, int32_t is_last, int64_t now_ms,
    struct bmq_batch_check *check, struct bmq_record_walk *walk
) {
    return check_part(header, part, part_bytes, is_last != 0, now_ms, check, walk);
}

int32_t bmq_check_opened(
    const uint8_t *header, const uint8_t *body, size_t body_bytes, int64_t now_ms, struct bmq_batch_check *check
) {
    struct bmq_record_walk walk = {0};
    return check_part(header, body, body_bytes, 1, now_ms, check, &walk);
}

int32_t bmq_check_batch(
    const uint8_t *batch, size_t batch_bytes, int64_t now_ms, struct bmq_batch_check *check
) {
    if (batch_bytes < HEADER_BYTES)
        return CHECK_NO_HEADER;
    return bmq_check_opened(batch, batch + HEADER_BYTES, batch_bytes - HEADER_BYTES, now_ms, check);
}
