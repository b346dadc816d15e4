/* bmq/records/passing_twin.py gives the same answers in Python; a change here is a change there. */
#include "passing.h"

#include "batches.h"

/* Whether the bytes are one of `count` strings from `first` on. */
BMQ_INLINE int is_among(const struct bmq_record_filter *filter, int64_t first, int64_t count, const uint8_t *bytes,
                        int64_t length) {
    const int64_t *string = filter->strings + 2 * first, *const end = string + 2 * count;
    for (; string < end; string += 2) {
        if (string[1] == length && memcmp(filter->texts + string[0], bytes, (size_t)length) == 0) {
            return 1;
        }
    }
    return 0;
}

/* The terms about the key that are true of it, a bit each. */
BMQ_INLINE uint32_t true_of_key(const struct bmq_record_filter *filter, const uint8_t *data,
                                const struct bmq_record *record) {
    uint32_t found = 0;
    int64_t number;
    for (number = 0; number < filter->term_count; number++) {
        const int64_t *term = filter->terms + BMQ_TERM_NUMBERS * number;
        if (term[1] == 0 && record->key_bytes >= 0 &&
            is_among(filter, term[2], term[3], data + record->key, record->key_bytes)) {
            found |= 1u << number;
        }
    }
    return found;
}

/* The terms about headers that are true of one of them, whose form was checked. */
BMQ_INLINE uint32_t true_of_headers(const struct bmq_record_filter *filter, const uint8_t *data,
                                    const struct bmq_record *record) {
    uint32_t found = 0;
    int64_t count = 0, place = bmq_get_varint(data, record->headers, record->stop, &count), header, number;
    for (header = 0; header < count; header++) {
        int64_t name_length = 0, length = 0;
        const uint8_t *name;
        place = bmq_get_varint(data, place, record->stop, &name_length);
        name = data + place;
        place = bmq_get_varint(data, place + name_length, record->stop, &length);
        if (length < 0) {
            continue; /* null is no value */
        }
        for (number = 0; number < filter->term_count; number++) {
            const int64_t *term = filter->terms + BMQ_TERM_NUMBERS * number;
            if (!(found >> number & 1) && is_among(filter, term[0], term[1], name, name_length) &&
                is_among(filter, term[2], term[3], data + place, length)) {
                found |= 1u << number;
            }
        }
        place += length;
    }
    return found;
}

int64_t bmq_passing_records(const uint8_t *data, int64_t end, int64_t count, int64_t last_delta,
                            const struct bmq_record_filter *filter, int64_t *runs, struct bmq_passing *passing) {
    struct bmq_record record = {0};
    int64_t place = passing->place, number, begin;
    if (place < 0 || place > end || count < 0 || last_delta < 0 || last_delta > INT32_MAX || passing->previous < -1 ||
        filter->term_count < 0 || filter->term_count > BMQ_TERMS_MAX) {
        return -BMQ_BAD_CALL;
    }
    passing->run_count = passing->passed = 0;
    for (number = 0; number < count; number++) {
        uint32_t found;
        begin = place;
        place = bmq_get_record(data, place, end, BMQ_WANTS_HEADERS, last_delta, &passing->previous, &record);
        if (place < 0) {
            return place;
        }
        found = true_of_key(filter, data, &record) | true_of_headers(filter, data, &record);
        if (!(filter->truths >> found & 1)) {
            continue;
        }
        if (passing->run_count && runs[2 * passing->run_count - 1] == begin) {
            runs[2 * passing->run_count - 1] = place;
        } else {
            runs[2 * passing->run_count] = begin;
            runs[2 * passing->run_count + 1] = place;
            passing->run_count++;
        }
        passing->passed++;
    }
    passing->place = place;
    return 0;
}
