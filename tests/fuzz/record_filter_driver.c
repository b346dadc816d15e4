/* Reads cases of the kernel's filters of records, each with its length in front (32 bits, little-endian), and writes a line of answers for
 * each: how it ends, and for each step its places, counts and runs. Cases and filters are those of tests/unit/records/record_filter_cases.py.
 */
#include "cases.h"
#include "record_filter_terms.h"

#define HEAD_BYTES 4

static void passing_case(const uint8_t *data, size_t bytes) {
    const size_t number = data[3] % FILTERS;
    const int64_t last_delta = data[1], step = data[2] ? data[2] : 1;
    int64_t left = data[0], status = 0;
    uint8_t *body = copied(data + HEAD_BYTES, bytes - HEAD_BYTES);
    struct passing_filter filter = filter_of(number);
    struct bmq_passing passing = {0, -1, 0, 0};
    char *line = exactly(65536);
    size_t at = 0;
    while (left && !status) {
        const int64_t count = left < step ? left : step;
        int64_t *runs = exactly(16 * (size_t)count);
        status = bmq_passing_records(body, (int64_t)(bytes - HEAD_BYTES), count, last_delta, &filter.filter, runs, &passing);
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
    free_filter(&filter);
}

int main(void) {
    return answer_cases(HEAD_BYTES, passing_case);
}
