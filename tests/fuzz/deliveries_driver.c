/* Reads cases of the kernel's deliveries, each with its length in front (32 bits, little-endian), and writes a line of answers for
 * each: how many rows are due, their bodies in hexadecimal, and the records of their delivery, or a status.
 *
 * A case is one byte for the number of entries, one for another part than that of the bodies, and the places above and until (two
 * int64 each); then entries and bodies, as many as are there.
 */
#include "cases.h"
#include "delays.h"
#include "deliveries.h"

#define HEAD_BYTES 34
#define BASE_OFFSET 1000
#define START 7

static int64_t int64_at(const uint8_t *data) {
    uint64_t number = 0;
    for (int at = 7; at >= 0; at--)
        number = number << 8 | data[at];
    return (int64_t)number;
}

static void write_hex(const uint8_t *data, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at++)
        printf("%02x", data[at]);
}

static void write_case(const uint8_t *data, size_t bytes) {
    const size_t left = bytes - HEAD_BYTES, fitting = left / BMQ_HELD_ENTRY_BYTES;
    const size_t count = data[0] < fitting ? data[0] : fitting, entry_bytes = count * BMQ_HELD_ENTRY_BYTES;
    const size_t body_bytes = left - entry_bytes;
    const struct bmq_due_terms terms = {BASE_OFFSET, (int64_t)body_bytes, START, int64_at(data + 2), int64_at(data + 10),
                                        int64_at(data + 18), int64_at(data + 26)};
    uint8_t *entries = exactly(entry_bytes), *bodies = exactly(body_bytes), *taken = exactly(body_bytes);
    struct bmq_held_row *rows = exactly(count * sizeof *rows);
    int64_t taken_bytes = 0;
    memcpy(entries, data + HEAD_BYTES, entry_bytes);
    memcpy(bodies, data + HEAD_BYTES + entry_bytes, body_bytes);
    const int64_t found = bmq_due_rows(entries, (int64_t)count, bodies, &terms, rows, taken, &taken_bytes);
    printf("%lld", (long long)found);
    if (found >= 0) {
        uint8_t *part = exactly(START + (size_t)taken_bytes);
        const int64_t out_bytes = taken_bytes + found * BMQ_DELIVERED_BYTES_MAX;
        uint8_t *out = exactly((size_t)out_bytes);
        int64_t *part_of = exactly((size_t)found * sizeof *part_of);
        struct bmq_delivered_part *parts = exactly(2 * sizeof *parts);
        memcpy(part + START, taken, (size_t)taken_bytes);
        parts[1].data = part;
        parts[1].bytes = START + taken_bytes;
        for (int64_t row = 0; row < found; row++)
            part_of[row] = 1 + data[1];
        printf(" ");
        write_hex(taken, taken_bytes);
        const int64_t size = bmq_delivered_records(rows, part_of, found, parts, 2, out, out_bytes);
        printf(" ");
        if (size < 0)
            printf("%lld", (long long)size);
        else
            write_hex(out, size);
        free(part);
        free(out);
        free(part_of);
        free(parts);
    }
    free(entries);
    free(bodies);
    free(taken);
    free(rows);
}

int main(void) {
    return answer_cases(HEAD_BYTES, write_case);
}
