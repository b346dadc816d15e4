/* The filters of tests/unit/records/record_filter_cases.py, in memory of exactly their sizes. */
#ifndef PASSING_FILTERS_H
#define PASSING_FILTERS_H

#include "cases.h"
#include "record_filter.h"

#define FILTERS 5

/* bmq-tag TAGS x (empty) a b abc */
static const uint8_t TEXTS[] = {'b', 'm', 'q', '-', 't', 'a', 'g', 'T', 'A', 'G', 'S', 'x', 'a', 'b', 'a', 'b', 'c'};
static const int64_t STRINGS[] = {0, 7, 7, 4, 12, 1, 14, 3, /* names and values of _TAG */
                                  12, 1, 0, 0,              /* values of _KEY */
                                  11, 1, 0, 0, 0, 0, 13, 1};
#define TAG 0, 2, 2, 2
#define KEY 0, 0, 4, 2
#define X 6, 2, 8, 2
static const int64_t TERMS[FILTERS][24] = {{TAG}, {KEY}, {TAG, KEY, X}, {0}, {X, KEY, TAG, X, KEY, TAG}};
static const int64_t TERM_COUNTS[FILTERS] = {1, 1, 3, 0, 6};
static const uint64_t TRUTHS[FILTERS] = {2, 2, 0xea, 1, UINT64_C(0x8000000000000006)};

struct passing_filter {
    struct bmq_record_filter filter;
    uint8_t *texts;
    int64_t *strings;
    int64_t *terms;
};

static struct passing_filter filter_of(size_t number) {
    struct passing_filter one;
    one.texts = copied(TEXTS, sizeof TEXTS);
    one.strings = copied(STRINGS, sizeof STRINGS);
    one.terms = copied(TERMS[number], 32 * (size_t)TERM_COUNTS[number]);
    one.filter = (struct bmq_record_filter){one.texts, one.strings, one.terms, TERM_COUNTS[number], TRUTHS[number]};
    return one;
}

static void free_filter(struct passing_filter *one) {
    free(one->texts);
    free(one->strings);
    free(one->terms);
}

#endif
