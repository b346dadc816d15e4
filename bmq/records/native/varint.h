/* Bounded readers of the numbers in record batches. Nothing is read at or behind `end`.
 *
 * Record fields are zigzag varints: 32 bits in up to 5 bytes for lengths, counts and offset deltas, 64 bits in up to 10
 * bytes for timestamp deltas. Bits that do not fit are refused: readers of 32 and of 64 bits would see different numbers.
 * Source: Kafka's ByteUtils.
 */
#ifndef BMQ_VARINT_H
#define BMQ_VARINT_H

#include <stddef.h>
#include <stdint.h>

enum varint_result {
    VARINT_READ = 0,
    VARINT_CUT_SHORT, /* the bytes end inside it */
    VARINT_TOO_LONG,  /* more bits than its type has */
};

static inline int32_t zigzag32(uint32_t value) {
    return (int32_t)((value >> 1) ^ (0u - (value & 1)));
}

static inline int64_t zigzag64(uint64_t value) {
    return (int64_t)((value >> 1) ^ (UINT64_C(0) - (value & 1)));
}

/* Reads at `*at` and moves it behind the varint. On failure `*at` and `*value` stay. */
static inline enum varint_result read_varint64(const uint8_t **at, const uint8_t *end, int64_t *value) {
    const uint8_t *place = *at;
    uint64_t bits = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (place == end)
            return VARINT_CUT_SHORT;
        uint8_t byte = *place++;
        if (shift == 63 && byte > 1)
            return VARINT_TOO_LONG;
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = place;
            *value = zigzag64(bits);
            return VARINT_READ;
        }
    }
    return VARINT_TOO_LONG;
}

static inline enum varint_result read_varint32_long(const uint8_t **at, const uint8_t *end, int32_t *value) {
    const uint8_t *place = *at;
    uint32_t bits = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (place == end)
            return VARINT_CUT_SHORT;
        uint8_t byte = *place++;
        if (shift == 28 && byte > 0x0f)
            return VARINT_TOO_LONG;
        bits |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = place;
            *value = zigzag32(bits);
            return VARINT_READ;
        }
    }
    return VARINT_TOO_LONG;
}

/* As read_varint64. Most lengths and deltas have one byte or two. */
static inline enum varint_result read_varint32(const uint8_t **at, const uint8_t *end, int32_t *value) {
    const uint8_t *place = *at;
    if (end - place >= 2) {
        uint32_t first = place[0], second = place[1];
        if (first < 0x80) {
            *at = place + 1;
            *value = zigzag32(first);
            return VARINT_READ;
        }
        if (second < 0x80) {
            *at = place + 2;
            *value = zigzag32((first & 0x7f) | second << 7);
            return VARINT_READ;
        }
    }
    return read_varint32_long(at, end, value);
}

#endif
