/* Takes the delayed records out of a producer's batch, by their headers, for bmq/log/timers/holding.py. */
#ifndef BMQ_DELAYS_H
#define BMQ_DELAYS_H

#include "kernel.h"

/* A record that is not of the usual kind: the caller has to look at the batch itself. */
#define BMQ_DELAYS_UNUSUAL 1

#define BMQ_HELD_ENTRY_BYTES 24

/* What a topic's records may ask for. `levels_ms`: `level_count` delays that are asked for by their number, from 1 on. `time_max_ms`:
 * the latest due time. `floor_ms`: a record that is held is not due before. `append_time_ms`: the time of all records, if
 * `has_append_time`; else it is `base_timestamp_ms` and their delta. */
struct bmq_delay_terms {
    const int64_t *levels_ms;
    int64_t level_count;
    int64_t now_ms;
    int64_t delay_max_ms;
    int64_t time_max_ms;
    int64_t floor_ms;
    int64_t base_timestamp_ms;
    int64_t append_time_ms;
    int64_t has_append_time;
};

/* `newest_ms`: the latest time of the records that are kept, -1 for none. */
struct bmq_delay_split {
    int64_t held_count;
    int64_t held_bytes;
    int64_t kept_count;
    int64_t kept_bytes;
    int64_t newest_ms;
};

/* The records of data[0, end). `entries`: room for `record_count` of BMQ_HELD_ENTRY_BYTES, big-endian as in an announcement of held
 * records. `bodies`, `kept`: room for `end` bytes each: held records from the length of their key on; whole records that stay.
 * 0, BMQ_DELAYS_UNUSUAL, or the negative of a kind of damage; only after 0 the output means anything. */
BMQ_EXPORT int64_t bmq_split_delays(const uint8_t *data, int64_t end, int64_t record_count, int64_t last_delta,
                                    const struct bmq_delay_terms *terms, uint8_t *entries, uint8_t *bodies,
                                    uint8_t *kept, struct bmq_delay_split *split);

#endif
