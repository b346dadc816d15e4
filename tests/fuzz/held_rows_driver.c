/* Reads cases of the kernel's rows of held records, each with its length in front (32 bits, little-endian), and writes a line of
 * answers for each: whether its bytes are a block; the status of held_rows; after rows, whether two have one place, and each
 * block in hexadecimal, with whether it is one that is read.
 *
 * A case is one byte for the number of entries, the number of bytes of their bodies and of a block (16 bits each,
 * little-endian), and the place above (two int64); then entries and bodies, as many as are there.
 */
#include "cases.h"
#include "delays.h"
#include "held_rows.h"

#define HEAD_BYTES 21
#define BASE_OFFSET 1000
#define START 7

static int64_t int64_at(const uint8_t *data) {
    uint64_t number = 0;
    for (int at = 7; at >= 0; at--)
        number = number << 8 | data[at];
    return (int64_t)number;
}

static int is_block(const uint8_t *data, size_t bytes, size_t count) {
    uint8_t *block = exactly(bytes);
    struct bmq_held_row *rows = exactly(count * sizeof *rows);
    memcpy(block, data, bytes);
    const int64_t status = bmq_block_rows(block, (int64_t)bytes, (int64_t)count, rows);
    free(block);
    free(rows);
    return status == 0;
}

static void write_case(const uint8_t *data, size_t bytes) {
    const size_t left = bytes - HEAD_BYTES, fitting = left / BMQ_HELD_ENTRY_BYTES;
    const size_t count = data[0] < fitting ? data[0] : fitting, entry_bytes = count * BMQ_HELD_ENTRY_BYTES;
    const int64_t said = data[1] | data[2] << 8, block = data[3] | data[4] << 8;
    const size_t body_bytes = left - entry_bytes;
    uint8_t *entries = exactly(entry_bytes), *bodies = exactly(START + body_bytes);
    struct bmq_held_row *rows = exactly(count * sizeof *rows), *room = exactly(count * sizeof *room);
    memcpy(entries, data + HEAD_BYTES, entry_bytes);
    memcpy(bodies + START, data + HEAD_BYTES + entry_bytes, body_bytes);
    const int64_t found = bmq_held_rows(entries, (int64_t)count, BASE_OFFSET, said, START, int64_at(data + 5),
                                        int64_at(data + 13), rows);
    printf("%d %lld", is_block(data + HEAD_BYTES, left, data[0]), (long long)(found < 0 ? -1 : found));
    if (found >= 0) {
        printf(" %lld", (long long)bmq_sort_rows(rows, found, room));
        for (int64_t row = 0, next = 0; row < found; row = next) {
            const int64_t size = bmq_write_rows(rows, found, row, bodies, (int64_t)(START + body_bytes), block, NULL, 0, &next);
            if (size < 0 || !block) {
                printf(" none");
                break;
            }
            uint8_t *out = exactly((size_t)size);
            bmq_write_rows(rows, found, row, bodies, (int64_t)(START + body_bytes), block, out, size, &next);
            printf(" ");
            for (int64_t at = 0; at < size; at++)
                printf("%02x", out[at]);
            printf(" %d", is_block(out, (size_t)size, (size_t)(next - row)));
            free(out);
        }
    }
    free(entries);
    free(bodies);
    free(rows);
    free(room);
}

int main(void) {
    return answer_cases(HEAD_BYTES, write_case);
}
