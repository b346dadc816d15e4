/* Takes held records that are due out of their announcements, and makes the records of their delivery, for bmq/broker/timers. */
#ifndef BMQ_DELIVERIES_H
#define BMQ_DELIVERIES_H

#include "held_rows.h"

/* A delivered record is longer than its body by so much at most: its length, deltas, a longer count of headers, and three headers. */
#define BMQ_DELIVERED_BYTES_MAX 144

/* Bodies that rows name by their place. */
struct bmq_delivered_part {
    const uint8_t *data;
    int64_t bytes;
};

/* What is taken of an announcement: what is above the place (`above_ms`, `above_name`) in the order and not above the other one.
 * `base_offset`, `bodies_bytes`: as for bmq_held_rows. `start`: the place of the first body that is taken. */
struct bmq_due_terms {
    int64_t base_offset;
    int64_t bodies_bytes;
    int64_t start;
    int64_t above_ms;
    int64_t above_name;
    int64_t until_ms;
    int64_t until_name;
};

/* Writes a row for each record that is taken of `count` entries, and copies its body. `rows`: room for `count`; `taken`: for
 * all bodies. `taken_bytes`: how long those are. How many, or the negative of BMQ_BAD_CALL. */
BMQ_EXPORT int64_t bmq_due_rows(const uint8_t *entries, int64_t count, const uint8_t *bodies,
                                const struct bmq_due_terms *terms, struct bmq_held_row *rows, uint8_t *taken,
                                int64_t *taken_bytes);

/* Writes the records of a delivery of these rows, in their order; `part_of`: for each, which of the `part_count` parts has its
 * body. `out`: has room for all bodies and BMQ_DELIVERED_BYTES_MAX for each. How many bytes, or the negative of a kind of damage
 * of a body; of BMQ_BAD_CALL for numbers that contradict each other. */
BMQ_EXPORT int64_t bmq_delivered_records(const struct bmq_held_row *rows, const int64_t *part_of, int64_t count,
                                         const struct bmq_delivered_part *parts, int64_t part_count, uint8_t *out,
                                         int64_t out_bytes);

#endif
