/* Reads cases of the kernel's delayed records, each with its length in front (32 bits, little-endian), and writes a line of answers
 * for each: the status, and after 0 counts, the newest time, entries, bodies and kept records in hexadecimal.
 *
 * A case is one byte each for record count, last delta, and whether the batch has one append time; then a body. The terms are
 * those of tests/unit/records/delay_cases.py.
 */
#include "cases.h"
#include "delays.h"

#define HEAD_BYTES 3
#define NOW_MS INT64_C(1700000000000)

static const int64_t LEVELS_MS[] = {1000, 5000, 10000};

static void put_hex(const uint8_t *data, int64_t bytes) {
    printf(" ");
    for (int64_t at = 0; at < bytes; at++)
        printf("%02x", data[at]);
}

static void split_case(const uint8_t *data, size_t bytes) {
    const size_t body_bytes = bytes - HEAD_BYTES;
    uint8_t *body = copied(data + HEAD_BYTES, body_bytes), *entries = exactly(BMQ_HELD_ENTRY_BYTES * (size_t)data[0]);
    uint8_t *bodies = exactly(body_bytes), *kept = exactly(body_bytes);
    struct bmq_delay_split split;
    struct bmq_delay_terms terms = {LEVELS_MS, 3, NOW_MS, 3600000, INT64_C(1) << 42, NOW_MS + 20, NOW_MS - 100, NOW_MS, data[2]};
    const int64_t status =
        bmq_split_delays(body, (int64_t)body_bytes, data[0], data[1], &terms, entries, bodies, kept, &split);
    printf("%lld", (long long)status);
    if (!status) {
        printf(" %lld %lld %lld", (long long)split.held_count, (long long)split.kept_count, (long long)split.newest_ms);
        put_hex(entries, BMQ_HELD_ENTRY_BYTES * split.held_count);
        put_hex(bodies, split.held_bytes);
        put_hex(kept, split.kept_bytes);
    }
    free(body);
    free(entries);
    free(bodies);
    free(kept);
}

int main(void) {
    return answer_cases(HEAD_BYTES, split_case);
}
