/* One input of the kernel's checks, and their answers as a line of text.
 *
 * An input is one byte of settings and the bytes of a batch. Each buffer is allocated at exactly its size, so that a
 * sanitizer sees a read of one byte too many. tests/fuzz/kernel_cases.py has the same for the twins.
 */
#include "cases.h"
#include "record_check.h"
#include "delays.h"
#include "lz4_frame.h"
#include "record_filter.h"

#define NOW_MS INT64_C(1700000000000)
#define REFUSED_MAX 3
#define HEADER_BYTES 61

static const int64_t BOUNDS_MS[] = {0, 5, 3600000, INT64_MAX};

static const size_t PART_BYTES[] = {1, 2, 7, 61};

/* As bmq_check_opened, for the body in parts of so many bytes. */
static int32_t checked_in_parts(
    const uint8_t *header, const uint8_t *body, size_t body_bytes, size_t part_bytes, struct bmq_batch_check *check
) {
    struct bmq_record_walk walk;
    int32_t result = CHECK_GOES_ON;
    memset(&walk, 0, sizeof(walk));
    for (size_t place = 0; result == CHECK_GOES_ON; place += part_bytes) {
        const size_t left = body_bytes - place;
        const int is_last = left <= part_bytes;
        uint8_t *part = copied(body + place, is_last ? left : part_bytes);
        result = bmq_check_part(header, part, is_last ? left : part_bytes, is_last, NOW_MS, check, &walk);
        free(part);
    }
    return result;
}

/* The status for the body as one with delayed records; the last bytes of the header's numbers say how many, so few. */
static int64_t split_status(const uint8_t *header, const uint8_t *body, size_t body_bytes) {
    static const int64_t levels_ms[] = {1000, 5000, 10000};
    const int64_t count = header[60] & 63, last_delta = header[26];
    const struct bmq_delay_terms terms = {levels_ms, 3, NOW_MS, 3600000, INT64_C(1) << 42, NOW_MS + 20, NOW_MS - 100, 0, 0};
    struct bmq_delay_split split;
    uint8_t *entries = exactly((size_t)count * BMQ_HELD_ENTRY_BYTES), *bodies = exactly(body_bytes);
    uint8_t *kept = exactly(body_bytes);
    const int64_t status =
        bmq_split_delays(body, (int64_t)body_bytes, count, last_delta, &terms, entries, bodies, kept, &split);
    free(entries);
    free(bodies);
    free(kept);
    return status;
}

/* How the body's records pass a filter by tag or key: the status, and how many do; the numbers as for split_status. */
static int64_t passing_status(const uint8_t *header, const uint8_t *body, size_t body_bytes, int64_t *passed) {
    static const uint8_t texts[] = {'b', 'm', 'q', '-', 't', 'a', 'g', 'a', 'k'};
    static const int64_t strings[] = {0, 7, 7, 1, 8, 1}, terms[] = {0, 1, 1, 1, 0, 0, 2, 1};
    const struct bmq_record_filter filter = {texts, strings, terms, 2, 0xe};
    const int64_t count = header[60] & 63, last_delta = header[26];
    struct bmq_passing passing = {0, -1, 0, 0};
    int64_t *runs = exactly(16 * (size_t)count);
    const int64_t status =
        bmq_passing_records(body, (int64_t)body_bytes, count, last_delta, &filter, runs, &passing);
    free(runs);
    *passed = status ? 0 : passing.passed;
    return status;
}

/* Writes "result max index count failed position | refused ... | opened's result, that of its parts and where | lz4 | delays | passing, how many", without an end of line. */
static void run_case(const uint8_t *data, size_t bytes, FILE *out) {
    const uint8_t settings = bytes ? data[0] : 0;
    const size_t batch_bytes = bytes ? bytes - 1 : 0;
    uint8_t *batch = copied(bytes ? data + 1 : data, batch_bytes);
    struct bmq_refused_record *refused = exactly(REFUSED_MAX * sizeof(*refused));
    struct bmq_batch_check check;
    memset(&check, 0, sizeof(check));
    check.rules = settings & 3;
    check.before_max_ms = BOUNDS_MS[settings >> 2 & 3];
    check.after_max_ms = BOUNDS_MS[settings >> 4 & 3];
    check.refused = refused;
    check.refused_max = REFUSED_MAX;
    const int32_t result = bmq_check_batch(batch, batch_bytes, NOW_MS, &check);
    int32_t opened = CHECK_NO_HEADER, parts = CHECK_NO_HEADER;
    long long place = 0, delays = 0, is_passing = 0;
    int64_t passed = 0;
    if (out)
        fprintf(out, "%d", result);
    if (result != CHECK_NO_HEADER) {
        if (out) {
            fprintf(out, " %lld %lld %lld %lld %lld |", (long long)check.max_timestamp_ms,
                    (long long)check.max_timestamp_index, (long long)check.refused_count, (long long)check.failed_index,
                    (long long)check.failed_position);
            for (int64_t number = 0; number < check.refused_count && number < REFUSED_MAX; number++)
                fprintf(out, " %lld:%lld:%lld", (long long)refused[number].index, (long long)refused[number].kind,
                        (long long)refused[number].timestamp_ms);
        }
        uint8_t *header = copied(batch, HEADER_BYTES);
        uint8_t *body = copied(batch + HEADER_BYTES, batch_bytes - HEADER_BYTES);
        opened = bmq_check_opened(header, body, batch_bytes - HEADER_BYTES, NOW_MS, &check);
        parts = checked_in_parts(header, body, batch_bytes - HEADER_BYTES, PART_BYTES[settings >> 6], &check);
        place = (long long)check.failed_position;
        delays = (long long)split_status(header, body, batch_bytes - HEADER_BYTES);
        is_passing = (long long)passing_status(header, body, batch_bytes - HEADER_BYTES, &passed);
        free(header);
        free(body);
    }
    const int32_t is_frame = bmq_lz4_is_one_frame(batch, batch_bytes);
    if (out)
        fprintf(out, " | %d %d %lld | %d | %lld | %lld %lld", opened, parts, place, is_frame, delays, is_passing,
                (long long)passed);
    free(refused);
    free(batch);
}
