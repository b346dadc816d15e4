/* Sorts held records and lays them out in the blocks of a run, for bmq/broker/timers/run_builder.py. */
#ifndef BMQ_HELD_ROWS_H
#define BMQ_HELD_ROWS_H

#include "kernel.h"

/* A held record: when it is due, its name, its own time, and where its body begins among the others. A length of
 * BMQ_ROW_CANCELS: it cancels the record of this due time and name. */
struct bmq_held_row {
    int64_t due_ms;
    int64_t name;
    int64_t created_ms;
    int64_t body;
    int64_t body_bytes;
};

#define BMQ_ROW_CANCELS (-1)
#define BMQ_ROW_HEAD_BYTES 28

/* `entries`: `count` of BMQ_HELD_ENTRY_BYTES (delays.h); their bodies lie back to back in `bodies_bytes` bytes, and get places from
 * `start` on. Writes a row for each that is behind the place (`above_ms`, `above_name`) in the order. `rows`: room for `count`.
 * How many, or the negative of BMQ_BAD_CALL. */
BMQ_EXPORT int64_t bmq_held_rows(const uint8_t *entries, int64_t count, int64_t base_offset, int64_t bodies_bytes,
                                 int64_t start, int64_t above_ms, int64_t above_name, struct bmq_held_row *rows);

/* Sorts by due time and name. `room`: for as many. 0, or 1 if two rows have the same place in the order. */
BMQ_EXPORT int64_t bmq_sort_rows(struct bmq_held_row *rows, int64_t count, struct bmq_held_row *room);

/* Reads block[0, bytes), records as a run has them behind the head of a block, into `count` rows; a body's place counts from the
 * beginning of the block. 0, or the negative of BMQ_BAD_CALL if these are other than `count` records in order. */
BMQ_EXPORT int64_t bmq_block_rows(const uint8_t *block, int64_t bytes, int64_t count, struct bmq_held_row *rows);

/* Writes rows from `row` on as a run has them, until they have `block_bytes` or more. Without `out`, or if `out_bytes` are too
 * few, nothing is written: how many bytes they take is told in any case. `next`: the row behind. The negative of BMQ_BAD_CALL for a
 * body that does not lie in bodies[0, bodies_bytes). */
BMQ_EXPORT int64_t bmq_write_rows(const struct bmq_held_row *rows, int64_t count, int64_t row, const uint8_t *bodies,
                                  int64_t bodies_bytes, int64_t block_bytes, uint8_t *out, int64_t out_bytes,
                                  int64_t *next);

#endif
