/* Keys of records for share groups that keep the order of each key: what keys.c exports. */
#ifndef BMQ_KEYS_H
#define BMQ_KEYS_H

#include "kernel.h"

#define BMQ_KEY_SLOTS 4096

/* A window of records. `states`, `numbers`: of `state_count` offsets; those behind are available. `hashes`: of `hash_count`
 * offsets; those behind are unknown. Nothing in front of `low` counts. Records may be taken from `first` on, in front of `end`.
 * `mine`: one byte per number of a lock, 1 if the member has it. `owners`: of the BMQ_KEY_SLOTS ranges of hashes; `me`: the
 * member's number there, or one that owns none. `blocked`: 65,536 zeros, which are changed. */
struct bmq_key_window {
    const uint8_t *states;
    const uint16_t *numbers;
    const uint16_t *hashes;
    const uint8_t *mine;
    const uint16_t *owners;
    uint8_t *blocked;
    int64_t state_count;
    int64_t hash_count;
    int64_t low;
    int64_t first;
    int64_t end;
    int64_t me;
};

/* `span_count` spans with `taken` records. `next`: the first record that may be taken, wherever it is, -1 if none may.
 * `unknown`: the first open offset whose hash is not known; nothing behind it is looked at. `waiting`: available records in front of
 * it that have to wait for others of their key, or are another member's. */
struct bmq_key_taken {
    int64_t span_count;
    int64_t taken;
    int64_t next;
    int64_t unknown;
    int64_t waiting;
};

/* What each of them does stands in keys.c. */
BMQ_EXPORT int64_t bmq_key_hashes(const uint8_t *data, int64_t place, int64_t end, int64_t record_count,
                                  int64_t last_delta, uint16_t *hashes);
BMQ_EXPORT int64_t bmq_own_slots(const uint64_t *seeds, int64_t count, uint16_t *owners);
BMQ_EXPORT int64_t bmq_take_keys(const struct bmq_key_window *window, int64_t records_max, int64_t *spans,
                                 int64_t spans_max, struct bmq_key_taken *taken);

#endif
