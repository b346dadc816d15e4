/* Reads cases of the kernel's filters of records, each with its length in front (32 bits, little-endian), and writes a line of answers for
 * each: how it ends, and for each step its places, counts and runs. Cases and filters are those of tests/unit/records/passing_cases.py.
 */
#include "cases.h"
#include "passing.h"

#define HEAD_BYTES 4
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

static void passing_case(const uint8_t *data, size_t bytes) {
    const size_t number = data[3] % FILTERS;
    const int64_t last_delta = data[1], step = data[2] ? data[2] : 1;
    int64_t left = data[0], status = 0;
    uint8_t *body = copied(data + HEAD_BYTES, bytes - HEAD_BYTES), *texts = copied(TEXTS, sizeof TEXTS);
    int64_t *strings = copied(STRINGS, sizeof STRINGS);
    int64_t *terms = copied(TERMS[number], 32 * (size_t)TERM_COUNTS[number]);
    const struct bmq_record_filter filter = {texts, strings, terms, TERM_COUNTS[number], TRUTHS[number]};
    struct bmq_passing passing = {0, -1, 0, 0};
    char *line = exactly(65536);
    size_t at = 0;
    while (left && !status) {
        const int64_t count = left < step ? left : step;
        int64_t *runs = exactly(16 * (size_t)count);
        status = bmq_passing_records(body, (int64_t)(bytes - HEAD_BYTES), count, last_delta, &filter, runs, &passing);
        left -= count;
        if (!status) {
            at += (size_t)sprintf(line + at, " | %lld %lld %lld", (long long)passing.place, (long long)passing.previous,
                                  (long long)passing.passed);
            for (int64_t run = 0; run < passing.run_count; run++)
                at += (size_t)sprintf(line + at, " %lld-%lld", (long long)runs[2 * run], (long long)runs[2 * run + 1]);
        }
        free(runs);
    }
    printf("%lld%s", (long long)status, line);
    free(line);
    free(body);
    free(texts);
    free(strings);
    free(terms);
}

int main(void) {
    return answer_cases(HEAD_BYTES, passing_case);
}
