/* Which records of a batch pass a filter that asks whether their key or headers are one of some values: for bmq/views. */
#ifndef BMQ_RECORD_FILTER_H
#define BMQ_RECORD_FILTER_H

#include "kernel.h"

#define BMQ_TERMS_MAX 6
#define BMQ_TERM_NUMBERS 4

/* `strings`: place and length in `texts`, two numbers each. `terms`: BMQ_TERM_NUMBERS numbers each: the first of its names among the strings,
 * how many there are (0: it is about the key), the first of its values, and how many. A term is true of a record if its key, or a
 * header with one of the names, is one of the values. `truths`: bit N is set if a record passes of which just the terms of the bits of N are
 * true. */
struct bmq_record_filter {
    const uint8_t *texts;
    const int64_t *strings;
    const int64_t *terms;
    int64_t term_count;
    uint64_t truths;
};

/* `place`, `previous`: where to begin, and the offset delta of the record before, -1 for none; both are moved on. `run_count`: of runs of
 * records that pass; `passed`: of these records. */
struct bmq_passing {
    int64_t place;
    int64_t previous;
    int64_t run_count;
    int64_t passed;
};

/* Looks at `count` records of data[0, end). `runs`: room for where `count` runs begin and end. 0, or the negative of a kind of damage. */
BMQ_EXPORT int64_t bmq_passing_records(const uint8_t *data, int64_t end, int64_t count, int64_t last_delta,
                                       const struct bmq_record_filter *filter, int64_t *runs, struct bmq_passing *passing);

/* What is shown of offsets [base_offset, next_offset). Keep in step with bmq/records/record_filter_layout.py. */
#define BMQ_SHOWN_NONE 0  /* no record passes; of one batch or several that follow each other, of one leader epoch */
#define BMQ_SHOWN_WHOLE 1 /* the batch at `place` of the data, of `size` bytes */
#define BMQ_SHOWN_PART 2  /* a batch with fewer records, at `place` of `out`; its checksum is not filled in */
#define BMQ_SHOWN_ASK 3   /* as WHOLE, and not looked at: compressed, a control batch, or damaged */

struct bmq_shown {
    int64_t kind;
    int64_t base_offset;
    int64_t next_offset;
    int64_t leader_epoch;
    int64_t place;
    int64_t size;
};

/* `place`: where to begin, moved behind the last batch that was looked at. `offset`: batches that end before it are passed over.
 * `count`, `out_bytes`: how much of `shown` and `out` is filled. */
struct bmq_showing {
    int64_t place;
    int64_t offset;
    int64_t count;
    int64_t out_bytes;
};

/* Looks at the whole batches of data[0, end) that lie back to back. Stops in front of a batch that is cut or has no possible header, and
 * where `shown` has no room. `out` has room for as many bytes as the data. 0, or -BMQ_BAD_CALL. */
BMQ_EXPORT int64_t bmq_show_batches(const uint8_t *data, int64_t end, const struct bmq_record_filter *filter,
                                    struct bmq_shown *shown, int64_t shown_max, uint8_t *out,
                                    struct bmq_showing *showing);

#endif
