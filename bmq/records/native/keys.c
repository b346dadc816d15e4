/* Keys of records for share groups that keep the order of each key: hashes of keys, and which records a member may be given.
 *
 * A hash is one of 65,534; two numbers are apart: KEY_UNKNOWN (no proxy has told it yet) and KEY_NONE (no order is kept). The numbers
 * of states are those of bmq/coordinator/share_state/window.py, the rest is in step with bmq/records/key_layout.py.
 */
#include "keys.h"

#include "batches.h"

#define KEY_UNKNOWN 0
#define KEY_NONE 65535
#define KEY_FIRST 1
#define KEY_LAST 65534
#define HASH_SHIFT 15 /* the partitioner takes the remainder of 31 bits: the upper 16 differ within a partition */
#define SLOT_SHIFT 4

#define AVAILABLE 0
#define ACQUIRED 1
#define ACKNOWLEDGED 2
#define ARCHIVING 3
#define ARCHIVED 4
#define DELAYED 5
#define ARCHIVING_SPENT 6
#define RESERVED 0x80

/* murmur2 as Kafka's Utils.murmur2 has it. */
BMQ_INLINE uint32_t murmur2(const uint8_t *key, uint32_t length) {
    const uint32_t factor = 0x5bd1e995;
    uint32_t hash = 0x9747b28c ^ length;
    for (; length >= 4; key += 4, length -= 4) {
        uint32_t word = load_le32(key);
        word *= factor;
        word ^= word >> 24;
        word *= factor;
        hash *= factor;
        hash ^= word;
    }
    switch (length) {
    case 3:
        hash ^= (uint32_t)key[2] << 16; /* fall through */
    case 2:
        hash ^= (uint32_t)key[1] << 8; /* fall through */
    case 1:
        hash ^= key[0];
        hash *= factor;
    }
    hash ^= hash >> 13;
    hash *= factor;
    return hash ^ hash >> 15;
}

BMQ_INLINE uint16_t key_hash(const uint8_t *key, int64_t length) {
    const uint32_t hash = (murmur2(key, (uint32_t)length) & INT32_MAX) >> HASH_SHIFT;
    return (uint16_t)(hash < KEY_FIRST ? KEY_FIRST : hash > KEY_LAST ? KEY_LAST : hash);
}

/* Fills in the hash of each offset of a batch, `last_delta` + 1 of them: KEY_NONE where there is no record or no key. */
BMQ_EXPORT int64_t bmq_key_hashes(const uint8_t *data, int64_t place, int64_t end, int64_t record_count,
                                  int64_t last_delta, uint16_t *hashes) {
    struct bmq_record record;
    int64_t previous = -1, number;
    if (place < 0 || place > end || last_delta < 0 || last_delta > INT32_MAX) {
        return -BMQ_BAD_CALL;
    }
    for (number = 0; number <= last_delta; number++) {
        hashes[number] = KEY_NONE;
    }
    for (number = 0; number < record_count; number++) {
        place = bmq_get_record(data, place, end, BMQ_WANTS_KEY, last_delta, &previous, &record);
        if (place < 0) {
            return place;
        }
        if (record.key_bytes >= 0) {
            hashes[record.offset_delta] = key_hash(data + record.key, record.key_bytes);
        }
    }
    return place == end ? 0 : -BMQ_BYTES_LEFT;
}

/* Who of `count` members owns each of the BMQ_KEY_SLOTS ranges of hashes: whose seed and the range's number mix to the greatest
 * number. A member that comes takes ranges of all others, and leaves them to all others when it goes; no range moves besides. */
BMQ_EXPORT int64_t bmq_own_slots(const uint64_t *seeds, int64_t count, uint16_t *owners) {
    int64_t slot, number;
    if (count < 1 || count > UINT16_MAX) {
        return -BMQ_BAD_CALL;
    }
    for (slot = 0; slot < BMQ_KEY_SLOTS; slot++) {
        uint64_t greatest = 0;
        owners[slot] = 0;
        for (number = 0; number < count; number++) {
            uint64_t mixed = seeds[number] ^ ((uint64_t)slot + 1) * UINT64_C(0x9e3779b97f4a7c15);
            mixed ^= mixed >> 33;
            mixed *= UINT64_C(0xff51afd7ed558ccd);
            mixed ^= mixed >> 33;
            mixed *= UINT64_C(0xc4ceb9fe1a85ec53);
            mixed ^= mixed >> 33;
            if (number == 0 || mixed > greatest) {
                greatest = mixed;
                owners[slot] = (uint16_t)number;
            }
        }
    }
    return 0;
}

BMQ_INLINE int is_over(uint8_t state) {
    return state == ACKNOWLEDGED || state == ARCHIVING || state == ARCHIVED || state == ARCHIVING_SPENT;
}

/* Fills in the spans (first and last index) of up to `records_max` records that the member may be given, in order. A key's record
 * may be if its range is the member's, no other member has a record of the key, none of the key is in transition, and all open
 * ones in front of it are the member's or taken, too. */
BMQ_EXPORT int64_t bmq_take_keys(const struct bmq_key_window *window, int64_t records_max, int64_t *spans,
                                 int64_t spans_max, struct bmq_key_taken *taken) {
    const int64_t count = window->state_count > window->hash_count ? window->state_count : window->hash_count;
    int64_t index, span_count = 0;
    int is_secret = 0; /* a record that is not available has an unknown hash */
    if (window->low < 0 || window->state_count < 0 || window->hash_count < 0 || spans_max < 0) {
        return -BMQ_BAD_CALL;
    }
    taken->span_count = taken->taken = taken->waiting = 0;
    taken->next = -1;
    taken->unknown = window->low > count ? window->low : count;
    for (index = window->low; index < window->state_count; index++) {
        const uint8_t byte = window->states[index], state = byte & (uint8_t)~RESERVED;
        const uint16_t hash = index < window->hash_count ? window->hashes[index] : KEY_UNKNOWN;
        if (is_over(state) || (state == AVAILABLE && byte == state) || state == DELAYED) {
            continue;
        }
        if (hash == KEY_UNKNOWN) {
            is_secret = 1;
        } else if (hash != KEY_NONE && (byte != state || !window->mine[window->numbers[index]])) {
            window->blocked[hash] = 1;
        }
    }
    for (index = window->low; index < count; index++) {
        const uint8_t byte = index < window->state_count ? window->states[index] : AVAILABLE;
        const uint8_t state = byte & (uint8_t)~RESERVED;
        const uint16_t hash = index < window->hash_count ? window->hashes[index] : KEY_UNKNOWN;
        if (is_over(state)) {
            continue;
        }
        if (hash == KEY_UNKNOWN) {
            taken->unknown = index;
            break;
        }
        if (byte != AVAILABLE) {
            if (state == DELAYED) {
                window->blocked[hash] = hash != KEY_NONE;
            }
            continue;
        }
        if (hash != KEY_NONE &&
            (is_secret || window->blocked[hash] || window->owners[hash >> SLOT_SHIFT] != window->me)) {
            window->blocked[hash] = 1;
            taken->waiting++;
            continue;
        }
        if (taken->next < 0) {
            taken->next = index;
        }
        if (index < window->first || index >= window->end) {
            if (hash != KEY_NONE) {
                window->blocked[hash] = 1; /* what follows of the key may not be given without this one */
            }
            continue;
        }
        if (taken->taken >= records_max) {
            break;
        }
        if (span_count && spans[2 * span_count - 1] == index - 1) {
            spans[2 * span_count - 1] = index;
        } else {
            if (span_count == spans_max) {
                break;
            }
            spans[2 * span_count] = spans[2 * span_count + 1] = index;
            span_count++;
        }
        taken->taken++;
    }
    taken->span_count = span_count;
    return 0;
}
