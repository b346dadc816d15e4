/* bmq/records/delays_twin.py gives the same answers in Python; a change here is a change there. */
#include "delays.h"

#include "batches.h"

#define DELIVER_AT "bmq-deliver-at"
#define DELIVER_AFTER "bmq-deliver-after"
#define TIMER_PREFIX "bmq-timer-"
#define OUR_PREFIX "bmq-"
#define DIGITS_MAX 19 /* fewer than 2^64 */
#define NO_TIMESTAMP (-1)

#define LENGTH_OF(text) ((int64_t)sizeof(text) - 1)

/* What one record asks for; a number of -1: it has no such header. */
struct asked {
    int64_t at_ms;
    int64_t after;
};

BMQ_INLINE int is_name(const uint8_t *name, int64_t length, const char *text, int64_t text_length) {
    return length == text_length && memcmp(name, text, (size_t)text_length) == 0;
}

BMQ_INLINE int begins_with(const uint8_t *name, int64_t length, const char *text, int64_t text_length) {
    return length >= text_length && memcmp(name, text, (size_t)text_length) == 0;
}

/* The number of these digits; -1 if they are none, or more than `most`. */
BMQ_INLINE int64_t number_of(const uint8_t *digits, int64_t length, int64_t most) {
    uint64_t number = 0;
    int64_t at;
    if (length < 1 || length > DIGITS_MAX) {
        return -1;
    }
    for (at = 0; at < length; at++) {
        if (digits[at] < '0' || digits[at] > '9') {
            return -1;
        }
        number = number * 10 + (uint64_t)(digits[at] - '0');
    }
    return number > (uint64_t)most ? -1 : (int64_t)number;
}

/* Reads the `count` headers from `place` on, which were checked. Whether all of them are usual. */
BMQ_INLINE int ask(const uint8_t *data, int64_t place, int64_t stop, int64_t count, int64_t time_max_ms,
                   struct asked *asked) {
    int64_t number, length = 0, value;
    asked->at_ms = asked->after = -1;
    for (number = 0; number < count; number++) {
        int64_t *field = NULL;
        const uint8_t *name;
        int64_t name_length = 0;
        place = bmq_get_varint(data, place, stop, &name_length);
        name = data + place;
        place = bmq_get_varint(data, place + name_length, stop, &length);
        if (begins_with(name, name_length, OUR_PREFIX, LENGTH_OF(OUR_PREFIX))) {
            if (is_name(name, name_length, DELIVER_AT, LENGTH_OF(DELIVER_AT))) {
                field = &asked->at_ms;
            } else if (is_name(name, name_length, DELIVER_AFTER, LENGTH_OF(DELIVER_AFTER))) {
                field = &asked->after;
            } else if (!begins_with(name, name_length, TIMER_PREFIX, LENGTH_OF(TIMER_PREFIX))) {
                return 0;
            }
        }
        if (field != NULL) {
            value = number_of(data + place, length, time_max_ms);
            if (*field >= 0 || value < 0) {
                return 0;
            }
            *field = value;
        }
        place += length > 0 ? length : 0;
    }
    return 1;
}

int64_t bmq_split_delays(const uint8_t *data, int64_t end, int64_t record_count, int64_t last_delta,
                         const struct bmq_delay_terms *terms, uint8_t *entries, uint8_t *bodies, uint8_t *kept,
                         struct bmq_delay_split *split) {
    struct bmq_record record = {0};
    int64_t place = 0, previous = -1, number, begin;
    if (end < 0 || record_count < 0 || last_delta < 0 || last_delta > INT32_MAX || terms->level_count < 0 ||
        terms->time_max_ms < 0 || terms->time_max_ms > INT64_C(1) << 61 || terms->now_ms < 0 || terms->now_ms > terms->time_max_ms) {
        return -BMQ_BAD_CALL;
    }
    memset(split, 0, sizeof *split);
    split->newest_ms = NO_TIMESTAMP;
    for (number = 0; number < record_count; number++) {
        struct asked asked;
        int64_t headers, count = 0, due_ms, timestamp_ms, body, delta;
        begin = place;
        place = bmq_get_record(data, place, end, BMQ_WANTS_HEADERS, last_delta, &previous, &record);
        if (place < 0) {
            return place;
        }
        headers = bmq_get_varint(data, record.headers, record.stop, &count);
        if (!ask(data, headers, record.stop, count, terms->time_max_ms, &asked)) {
            return BMQ_DELAYS_UNUSUAL;
        }
        timestamp_ms = terms->has_append_time ? terms->append_time_ms
                                              : bmq_sum(terms->base_timestamp_ms, record.timestamp_delta);
        due_ms = -1;
        if (asked.at_ms >= 0) {
            due_ms = asked.at_ms;
        } else if (asked.after >= 0) {
            const int is_level = asked.after >= 1 && asked.after <= terms->level_count;
            due_ms = terms->now_ms + (is_level ? terms->levels_ms[asked.after - 1] : asked.after);
        }
        if (due_ms <= terms->now_ms) {
            memcpy(kept + split->kept_bytes, data + begin, (size_t)(place - begin));
            split->kept_bytes += place - begin;
            split->kept_count++;
            if (timestamp_ms > split->newest_ms) {
                split->newest_ms = timestamp_ms;
            }
            continue;
        }
        if (due_ms - terms->now_ms > terms->delay_max_ms || due_ms > terms->time_max_ms) {
            return BMQ_DELAYS_UNUSUAL;
        }
        body = bmq_get_varint(data, record.behind_timestamp, record.stop, &delta);
        memcpy(bodies + split->held_bytes, data + body, (size_t)(place - body));
        store_be64(entries, (uint64_t)(due_ms < terms->floor_ms ? terms->floor_ms : due_ms));
        store_be64(entries + 8, (uint64_t)timestamp_ms);
        store_be32(entries + 16, (uint32_t)record.offset_delta);
        store_be32(entries + 20, (uint32_t)(place - body));
        entries += BMQ_HELD_ENTRY_BYTES;
        split->held_bytes += place - body;
        split->held_count++;
    }
    return place == end ? 0 : -BMQ_BYTES_LEFT;
}
