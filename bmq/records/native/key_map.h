/* The newest offset of each key: an open hash table in memory that the caller gives, of fixed size.
 *
 * A slot has 128 bits of SipHash-2-4 of the key, not the key itself, as Kafka's has its MD5 (SkimpyOffsetMap). SipHash is
 * keyed, so nobody can choose keys that collide.
 */
#ifndef BMQ_KEY_MAP_H
#define BMQ_KEY_MAP_H

#include "batches.h"

#define BMQ_DELTA_MAX (UINT32_MAX - 1)

struct bmq_hash {
    uint64_t first;
    uint64_t second;
};

/* Five words without padding: the hash, then offset - base_offset + 1, or 0: the slot is free. */
struct bmq_slot {
    uint32_t hash[4];
    uint32_t mark;
};

struct bmq_key_map {
    struct bmq_slot *slots;
    int64_t slot_count;
    int64_t count;     /* keys in it */
    int64_t count_max; /* fewer than there are slots */
    int64_t base_offset;
    uint64_t key0; /* of the hash */
    uint64_t key1;
};

BMQ_INLINE uint64_t bmq_rotated(uint64_t value, int bits) {
    return value << bits | value >> (64 - bits);
}

BMQ_INLINE uint64_t bmq_little_endian(const uint8_t *data) {
    uint64_t value = 0;
    int at;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)at;
    memcpy(&value, data, sizeof value);
#else
    for (at = 0; at < 8; at++) {
        value |= (uint64_t)data[at] << 8 * at;
    }
#endif
    return value;
}

#define BMQ_SIPHASH_ROUND                                                                                                   \
    do {                                                                                                                   \
        v0 += v1;                                                                                                          \
        v2 += v3;                                                                                                          \
        v1 = bmq_rotated(v1, 13) ^ v0;                                                                                      \
        v3 = bmq_rotated(v3, 16) ^ v2;                                                                                      \
        v0 = bmq_rotated(v0, 32);                                                                                           \
        v2 += v1;                                                                                                          \
        v0 += v3;                                                                                                          \
        v1 = bmq_rotated(v1, 17) ^ v2;                                                                                      \
        v3 = bmq_rotated(v3, 21) ^ v0;                                                                                      \
        v2 = bmq_rotated(v2, 32);                                                                                           \
    } while (0)

/* SipHash-2-4 of 128 bits. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", and its reference code. */
BMQ_INLINE struct bmq_hash bmq_siphash(const uint8_t *data, int64_t length, uint64_t key0, uint64_t key1) {
    uint64_t v0 = key0 ^ UINT64_C(0x736F6D6570736575), v1 = key1 ^ UINT64_C(0x646F72616E646F6D) ^ 0xEE;
    uint64_t v2 = key0 ^ UINT64_C(0x6C7967656E657261), v3 = key1 ^ UINT64_C(0x7465646279746573), word;
    struct bmq_hash hash;
    int64_t left = length;
    int at;
    for (; left >= 8; left -= 8, data += 8) {
        word = bmq_little_endian(data);
        v3 ^= word;
        BMQ_SIPHASH_ROUND;
        BMQ_SIPHASH_ROUND;
        v0 ^= word;
    }
    word = (uint64_t)(length & 0xFF) << 56;
    for (at = 0; at < left; at++) {
        word |= (uint64_t)data[at] << 8 * at;
    }
    v3 ^= word;
    BMQ_SIPHASH_ROUND;
    BMQ_SIPHASH_ROUND;
    v0 ^= word;
    v2 ^= 0xEE;
    BMQ_SIPHASH_ROUND;
    BMQ_SIPHASH_ROUND;
    BMQ_SIPHASH_ROUND;
    BMQ_SIPHASH_ROUND;
    hash.first = v0 ^ v1 ^ v2 ^ v3;
    v1 ^= 0xDD;
    BMQ_SIPHASH_ROUND;
    BMQ_SIPHASH_ROUND;
    BMQ_SIPHASH_ROUND;
    BMQ_SIPHASH_ROUND;
    hash.second = v0 ^ v1 ^ v2 ^ v3;
    return hash;
}

BMQ_INLINE struct bmq_hash bmq_key_hash(const struct bmq_key_map *map, const uint8_t *data, int64_t length) {
    return bmq_siphash(data, length, map->key0, map->key1);
}

/* The slot where a look for the hash begins. */
BMQ_INLINE struct bmq_slot *bmq_first_slot(const struct bmq_key_map *map, struct bmq_hash hash) {
    return map->slots + hash.first % (uint64_t)map->slot_count;
}

/* The slot that has the hash, or the free one where it belongs: there always is one. */
BMQ_INLINE struct bmq_slot *bmq_slot_of(const struct bmq_key_map *map, struct bmq_hash hash) {
    struct bmq_slot *slot = bmq_first_slot(map, hash);
    while (slot->mark != 0 && memcmp(slot->hash, &hash, sizeof hash) != 0) {
        slot++;
        if (slot == map->slots + map->slot_count) {
            slot = map->slots;
        }
    }
    return slot;
}

BMQ_INLINE int bmq_is_map(const struct bmq_key_map *map) {
    return map->slot_count > 0 && map->count >= 0 && map->count <= map->count_max && map->count_max < map->slot_count;
}

/* Notes a record's offset, which has to be the newest so far. 0: there is no room, or the offset is too far away. */
BMQ_INLINE int bmq_note(struct bmq_key_map *map, struct bmq_hash hash, int64_t offset) {
    int64_t delta = bmq_difference(offset, map->base_offset);
    struct bmq_slot *slot;
    if (delta < 0 || delta > BMQ_DELTA_MAX) {
        return 0;
    }
    slot = bmq_slot_of(map, hash);
    if (slot->mark == 0) {
        if (map->count == map->count_max) {
            return 0;
        }
        map->count++;
        memcpy(slot->hash, &hash, sizeof hash);
    }
    slot->mark = (uint32_t)(delta + 1);
    return 1;
}

/* Whether the map knows of no newer record of the key. */
BMQ_INLINE int bmq_is_newest(const struct bmq_key_map *map, struct bmq_hash hash, int64_t offset) {
    const struct bmq_slot *slot = bmq_slot_of(map, hash);
    return slot->mark == 0 || bmq_difference(offset, map->base_offset) >= (int64_t)slot->mark - 1;
}

#endif
