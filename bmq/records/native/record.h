/* One record of a batch (magic 2): its fields, read without passing the end of the batch's body.
 *
 * Source: Kafka's DefaultRecord.readFrom. There every negative length means null; here only -1 does, since readers of other
 * clients, and ours, take other lengths for damage.
 */
#ifndef BMQ_RECORD_H
#define BMQ_RECORD_H

#include "varint.h"

enum record_result {
    RECORD_READ = 0,
    RECORD_CUT_SHORT,      /* the body ends inside the record */
    RECORD_BAD_VARINT,     /* a varint with more bits than its type, or past the end of the record */
    RECORD_BAD_LENGTH,     /* the record's own length is negative, or a field's is below -1 */
    RECORD_FIELD_TOO_LONG, /* a key, value or header passes the end of its record */
    RECORD_BAD_HEADERS,    /* a negative count of headers, more than bytes, or a header without a key */
    RECORD_LONGER,         /* bytes are left behind the last field */
};

struct record {
    const uint8_t *key; /* NULL: none */
    const uint8_t *value;
    const uint8_t *headers; /* the first header; they end at `end` */
    const uint8_t *end;     /* behind the record */
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_bytes; /* 0 without a key */
    int32_t value_bytes;
    int32_t header_count;
};

/* A length and so many bytes. A length of -1: `*field` is NULL. */
static inline enum record_result read_field(
    const uint8_t **at, const uint8_t *end, const uint8_t **field, int32_t *field_bytes
) {
    int32_t length;
    if (read_varint32(at, end, &length) != VARINT_READ)
        return RECORD_BAD_VARINT;
    if (length < -1)
        return RECORD_BAD_LENGTH;
    if (length < 0) {
        *field = NULL;
        *field_bytes = 0;
        return RECORD_READ;
    }
    if (length > end - *at)
        return RECORD_FIELD_TOO_LONG;
    *field = *at;
    *field_bytes = length;
    *at += length;
    return RECORD_READ;
}

/* Reads the record at `*at` and moves it behind the record. On failure `*at` stays. */
static inline enum record_result read_record(const uint8_t **at, const uint8_t *body_end, struct record *record) {
    const uint8_t *place = *at;
    int32_t length;
    switch (read_varint32(&place, body_end, &length)) {
    case VARINT_READ:
        break;
    case VARINT_CUT_SHORT:
        return RECORD_CUT_SHORT;
    default:
        return RECORD_BAD_VARINT;
    }
    if (length < 0)
        return RECORD_BAD_LENGTH;
    if (length > body_end - place)
        return RECORD_CUT_SHORT;
    const uint8_t *end = place + length;
    record->end = end;
    if (length == 0)
        return RECORD_BAD_VARINT;
    place++; /* attributes of records have no meaning yet */
    if (read_varint64(&place, end, &record->timestamp_delta) != VARINT_READ)
        return RECORD_BAD_VARINT;
    if (read_varint32(&place, end, &record->offset_delta) != VARINT_READ)
        return RECORD_BAD_VARINT;
    enum record_result result = read_field(&place, end, &record->key, &record->key_bytes);
    if (result != RECORD_READ)
        return result;
    result = read_field(&place, end, &record->value, &record->value_bytes);
    if (result != RECORD_READ)
        return result;
    int32_t header_count;
    if (read_varint32(&place, end, &header_count) != VARINT_READ)
        return RECORD_BAD_VARINT;
    /* A header has two bytes at least, so the count bounds the loop by the record's bytes. */
    if (header_count < 0 || header_count > end - place)
        return RECORD_BAD_HEADERS;
    record->headers = place;
    record->header_count = header_count;
    for (int32_t number = 0; number < header_count; number++) {
        const uint8_t *field;
        int32_t field_bytes;
        result = read_field(&place, end, &field, &field_bytes);
        if (result != RECORD_READ)
            return result;
        if (field == NULL)
            return RECORD_BAD_HEADERS;
        result = read_field(&place, end, &field, &field_bytes);
        if (result != RECORD_READ)
            return result;
    }
    if (place != end)
        return RECORD_LONGER;
    *at = end;
    return RECORD_READ;
}

#endif
