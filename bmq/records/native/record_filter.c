/* bmq/records/record_filter_twin.py gives the same answers in Python; a change here is a change there. */
#include "record_filter.h"

#include "batches.h"

#define AHEAD_RECORDS 4
#define CACHE_LINE_BYTES 64

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

BMQ_INLINE int passes(const struct bmq_record_filter *filter, const uint8_t *data, const struct bmq_record *record) {
    const uint32_t found = true_of_key(filter, data, record) | true_of_headers(filter, data, record);
    return (int)(filter->truths >> found & 1);
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
        begin = place;
        place = bmq_get_record(data, place, end, BMQ_WANTS_HEADERS, last_delta, &passing->previous, &record);
        if (place < 0) {
            return place;
        }
        if (!passes(filter, data, &record)) {
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

/* How many records of a batch pass. Less than all of them: `out` has the batch with these, `*out_bytes` long. Negative: damage. */
static int64_t show_records(const uint8_t *batch, int64_t size, int64_t record_count, int64_t last_delta,
                            const struct bmq_record_filter *filter, uint8_t *out, int64_t *out_bytes) {
    struct bmq_record record = {0};
    int64_t place = BMQ_HEADER_BYTES, previous = -1, number, begin, ahead, run = place, run_end = place, passed = 0;
    int64_t at = BMQ_HEADER_BYTES;
    for (number = 0; number < record_count; number++) {
        begin = place;
        place = bmq_get_record(batch, place, size, BMQ_WANTS_HEADERS, last_delta, &previous, &record);
        if (place < 0) {
            return place;
        }
        /* Records are often of one size: the ends of those to come, with their headers, are fetched ahead. */
        ahead = place + AHEAD_RECORDS * (place - begin);
        if (ahead < size) {
            BMQ_PREFETCH(batch + ahead);
            BMQ_PREFETCH(batch + ahead - CACHE_LINE_BYTES);
        }
        if (!passes(filter, batch, &record)) {
            continue;
        }
        if (run_end != begin) {
            memcpy(out + at, batch + run, (size_t)(run_end - run));
            at += run_end - run;
            run = begin;
        }
        run_end = place;
        passed++;
    }
    if (place != size) {
        return -BMQ_BYTES_LEFT;
    }
    if (passed && passed < record_count) {
        memcpy(out + at, batch + run, (size_t)(run_end - run));
        at += run_end - run;
        memcpy(out, batch, BMQ_HEADER_BYTES);
        store_be32(out + 8, (uint32_t)(at - BMQ_LENGTH_OVERHEAD_BYTES));
        store_be32(out + 57, (uint32_t)passed);
        *out_bytes = at;
    }
    return passed;
}

int64_t bmq_show_batches(const uint8_t *data, int64_t end, const struct bmq_record_filter *filter,
                         struct bmq_shown *shown, int64_t shown_max, uint8_t *out, struct bmq_showing *showing) {
    int64_t place = showing->place, count = 0, out_bytes = 0;
    if (place < 0 || place > end || shown_max < 0 || filter->term_count < 0 || filter->term_count > BMQ_TERMS_MAX) {
        return -BMQ_BAD_CALL;
    }
    while (end - place >= BMQ_HEADER_BYTES) {
        const uint8_t *const batch = data + place;
        const int32_t length = (int32_t)load_be32(batch + 8), last_delta = (int32_t)load_be32(batch + 23);
        const int32_t record_count = (int32_t)load_be32(batch + 57), epoch = (int32_t)load_be32(batch + 12);
        const int64_t size = (int64_t)length + BMQ_LENGTH_OVERHEAD_BYTES, base_offset = (int64_t)load_be64(batch);
        const uint8_t attributes = batch[22];
        struct bmq_shown one = {BMQ_SHOWN_ASK, base_offset, 0, epoch, place, size};
        int64_t passed = -BMQ_CUT;
        if (size < BMQ_HEADER_BYTES || size > end - place || batch[16] != 2 || last_delta < 0 ||
            base_offset < 0 || base_offset > INT64_MAX - INT32_MAX - 1) {
            break;
        }
        one.next_offset = base_offset + last_delta + 1;
        if (one.next_offset <= showing->offset) {
            place += size;
            continue;
        }
        if (!(attributes & BMQ_CONTROL)) {
            if (record_count <= 0) {
                passed = 0;
            } else if (!(attributes & BMQ_CODEC_MASK)) {
                passed = show_records(batch, size, record_count, last_delta, filter, out + out_bytes, &one.size);
            }
        }
        if (passed == 0) {
            struct bmq_shown *const last = count ? shown + count - 1 : NULL;
            one.kind = BMQ_SHOWN_NONE;
            if (last && last->kind == BMQ_SHOWN_NONE && last->leader_epoch == one.leader_epoch &&
                one.next_offset > last->base_offset && one.next_offset - 1 - last->base_offset <= INT32_MAX) {
                last->next_offset = one.next_offset;
                place += size;
                continue;
            }
        } else if (passed > 0) {
            one.kind = passed == record_count ? BMQ_SHOWN_WHOLE : BMQ_SHOWN_PART;
        } else {
            one.size = size;
        }
        if (count == shown_max) {
            break;
        }
        if (one.kind == BMQ_SHOWN_PART) {
            one.place = out_bytes;
            out_bytes += one.size;
        }
        shown[count++] = one;
        place += size;
    }
    showing->place = place;
    showing->count = count;
    showing->out_bytes = out_bytes;
    return 0;
}
