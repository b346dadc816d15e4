/* Which records of a batch pass a filter that asks whether their key or headers are one of some values: for bmq/views. */
#ifndef BMQ_PASSING_H
#define BMQ_PASSING_H

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

#endif
