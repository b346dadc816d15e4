/* Numbers in bytes, at a place of which the caller knows that it is inside its buffer. */
#ifndef BMQ_BYTE_ORDER_H
#define BMQ_BYTE_ORDER_H

#include <stdint.h>

static inline uint32_t load_be32(const uint8_t *place) {
    return (uint32_t)place[0] << 24 | (uint32_t)place[1] << 16 | (uint32_t)place[2] << 8 | place[3];
}

static inline uint64_t load_be64(const uint8_t *place) {
    return (uint64_t)load_be32(place) << 32 | load_be32(place + 4);
}

static inline uint32_t load_le32(const uint8_t *place) {
    return place[0] | (uint32_t)place[1] << 8 | (uint32_t)place[2] << 16 | (uint32_t)place[3] << 24;
}

static inline uint64_t load_le64(const uint8_t *place) {
    return (uint64_t)load_le32(place) | (uint64_t)load_le32(place + 4) << 32;
}

static inline void store_be32(uint8_t *place, uint32_t value) {
    place[0] = (uint8_t)(value >> 24);
    place[1] = (uint8_t)(value >> 16);
    place[2] = (uint8_t)(value >> 8);
    place[3] = (uint8_t)value;
}

static inline void store_be64(uint8_t *place, uint64_t value) {
    store_be32(place, (uint32_t)(value >> 32));
    store_be32(place + 4, (uint32_t)value);
}

#endif
