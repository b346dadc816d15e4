/* bmq/records/deliveries_twin.py gives the same answers in Python; a change here is a change there. */
#include "deliveries.h"

#include <string.h>

#include "batches.h"
#include "delays.h"

#define OFFSET_MAX (INT64_C(1) << 62)
#define ADDED_HEADERS 3
#define DIGITS_MAX 20 /* a sign and 19 digits */

#define LENGTH_OF(text) ((int64_t)sizeof(text) - 1)
static const char NAME_HEADER[] = "bmq-timer-offset", DUE_HEADER[] = "bmq-timer-due", CREATED_HEADER[] = "bmq-timer-created";

/* Text of a number: its last byte is at digits[DIGITS_MAX - 1]. */
struct number {
    char digits[DIGITS_MAX];
    int64_t length;
};

BMQ_INLINE int is_above(int64_t due_ms, int64_t name, int64_t above_ms, int64_t above_name) {
    return due_ms > above_ms || (due_ms == above_ms && name > above_name);
}

int64_t bmq_due_rows(const uint8_t *entries, int64_t count, const uint8_t *bodies, const struct bmq_due_terms *terms,
                     struct bmq_held_row *rows, uint8_t *taken, int64_t *taken_bytes) {
    int64_t number, place = 0, found = 0, size = 0;
    if (count < 0 || terms->base_offset < 0 || terms->base_offset > OFFSET_MAX || terms->bodies_bytes < 0 ||
        terms->start < 0 || terms->start > OFFSET_MAX) {
        return -BMQ_BAD_CALL;
    }
    for (number = 0; number < count; number++, entries += BMQ_HELD_ENTRY_BYTES) {
        const int64_t due_ms = (int64_t)load_be64(entries), length = (int32_t)load_be32(entries + 20);
        const int64_t name = terms->base_offset + (int32_t)load_be32(entries + 16);
        if (length < 0 || length > terms->bodies_bytes - place) {
            return -BMQ_BAD_CALL;
        }
        if (is_above(due_ms, name, terms->above_ms, terms->above_name) &&
            !is_above(due_ms, name, terms->until_ms, terms->until_name)) {
            struct bmq_held_row *row = &rows[found++];
            row->due_ms = due_ms;
            row->name = name;
            row->created_ms = (int64_t)load_be64(entries + 8);
            row->body = terms->start + size;
            row->body_bytes = length;
            if (length > 0) {
                memcpy(taken + size, bodies + place, (size_t)length);
            }
            size += length;
        }
        place += length;
    }
    *taken_bytes = size;
    return place == terms->bodies_bytes ? found : -BMQ_BAD_CALL;
}

BMQ_INLINE void write_number(struct number *text, int64_t number) {
    uint64_t left = number < 0 ? UINT64_C(0) - (uint64_t)number : (uint64_t)number;
    int64_t place = DIGITS_MAX;
    do {
        text->digits[--place] = (char)('0' + (char)(left % 10));
        left /= 10;
    } while (left);
    if (number < 0) {
        text->digits[--place] = '-';
    }
    text->length = DIGITS_MAX - place;
}

/* A name and a number, each with its length, which is below 64, in front. */
BMQ_INLINE int64_t header_bytes(int64_t name_length, const struct number *text) {
    return 2 + name_length + text->length;
}

BMQ_INLINE uint8_t *put_header(uint8_t *out, const char *name, int64_t name_length, const struct number *text) {
    *out++ = (uint8_t)(name_length << 1);
    memcpy(out, name, (size_t)name_length);
    out += name_length;
    *out++ = (uint8_t)(text->length << 1);
    memcpy(out, text->digits + DIGITS_MAX - text->length, (size_t)text->length);
    return out + text->length;
}

/* Where the key and the value of a body end; negative if they are damaged. */
BMQ_INLINE int64_t skip_key_and_value(const uint8_t *body, int64_t bytes) {
    int64_t begins, length, place = bmq_get_field(body, 0, bytes, &begins, &length);
    return place < 0 ? place : bmq_get_field(body, place, bytes, &begins, &length);
}

int64_t bmq_delivered_records(const struct bmq_held_row *rows, const int64_t *part_of, int64_t count,
                              const struct bmq_delivered_part *parts, int64_t part_count, uint8_t *out, int64_t out_bytes) {
    uint8_t *at = out, *const end = out + out_bytes;
    int64_t number;
    if (count < 0 || part_count < 0 || out_bytes < 0) {
        return -BMQ_BAD_CALL;
    }
    for (number = 0; number < count; number++) {
        const struct bmq_held_row *row = &rows[number];
        const struct bmq_delivered_part *part;
        struct number name, due, created;
        const uint8_t *body;
        int64_t headers, behind, header_count, length;
        if (part_of[number] < 0 || part_of[number] >= part_count) {
            return -BMQ_BAD_CALL;
        }
        part = &parts[part_of[number]];
        if (row->body_bytes < 0 || row->body < 0 || row->body > part->bytes || row->body_bytes > part->bytes - row->body ||
            end - at < BMQ_DELIVERED_BYTES_MAX || row->body_bytes > end - at - BMQ_DELIVERED_BYTES_MAX ||
            row->body_bytes > INT32_MAX - BMQ_DELIVERED_BYTES_MAX) {
            return -BMQ_BAD_CALL;
        }
        if (row->body_bytes == 0) {
            return -BMQ_CUT;
        }
        body = part->data + row->body;
        headers = skip_key_and_value(body, row->body_bytes);
        if (headers < 0) {
            return headers;
        }
        behind = bmq_get_varint(body, headers, row->body_bytes, &header_count);
        if (behind < 0) {
            return behind;
        }
        if (header_count < 0 || header_count > row->body_bytes) {
            return -BMQ_BAD_HEADERS;
        }
        header_count += ADDED_HEADERS;
        write_number(&name, row->name);
        write_number(&due, row->due_ms);
        write_number(&created, row->created_ms);
        length = 2 + bmq_varint_bytes(number) + headers + bmq_varint_bytes(header_count) + (row->body_bytes - behind) +
                 header_bytes(LENGTH_OF(NAME_HEADER), &name) + header_bytes(LENGTH_OF(DUE_HEADER), &due) +
                 header_bytes(LENGTH_OF(CREATED_HEADER), &created);
        at += bmq_put_varint(at, 0, length);
        *at++ = 0; /* attributes */
        *at++ = 0; /* no time behind the batch's */
        at += bmq_put_varint(at, 0, number);
        memcpy(at, body, (size_t)headers);
        at += headers;
        at += bmq_put_varint(at, 0, header_count);
        memcpy(at, body + behind, (size_t)(row->body_bytes - behind));
        at += row->body_bytes - behind;
        at = put_header(at, NAME_HEADER, LENGTH_OF(NAME_HEADER), &name);
        at = put_header(at, DUE_HEADER, LENGTH_OF(DUE_HEADER), &due);
        at = put_header(at, CREATED_HEADER, LENGTH_OF(CREATED_HEADER), &created);
    }
    return at - out;
}
