/* Reads cases of what filters show of batches, each with its length in front (32 bits, little-endian), and writes a line of answers for
 * each: where the next batch begins, then each piece. Cases are those of tests/unit/records/showing_cases.py.
 */
#include "cases.h"
#include "record_filter_terms.h"

#define HEAD_BYTES 2
#define SHOWN_MAX 1024

static void showing_case(const uint8_t *data, size_t bytes) {
    const size_t number = data[0] % FILTERS, size = bytes - HEAD_BYTES;
    struct passing_filter filter = filter_of(number);
    uint8_t *body = copied(data + HEAD_BYTES, size), *out = exactly(size);
    struct bmq_shown *shown = exactly(sizeof(struct bmq_shown) * SHOWN_MAX);
    struct bmq_showing showing = {0, data[1], 0, 0};
    const int64_t status =
        bmq_show_batches(body, (int64_t)size, &filter.filter, shown, SHOWN_MAX, out, &showing);
    if (status)
        exit(2);
    printf("%lld", (long long)showing.place);
    for (int64_t one = 0; one < showing.count; one++) {
        const struct bmq_shown *at = shown + one;
        printf(" | %lld %lld %lld %lld %lld %lld", (long long)at->kind, (long long)at->base_offset,
               (long long)at->next_offset, (long long)at->leader_epoch, (long long)at->place, (long long)at->size);
        if (at->kind == BMQ_SHOWN_PART) {
            putchar(' ');
            for (int64_t byte = 0; byte < at->size; byte++)
                printf("%02x", out[at->place + byte]);
        }
    }
    free(body);
    free(out);
    free(shown);
    free_filter(&filter);
}

int main(void) {
    return answer_cases(HEAD_BYTES, showing_case);
}
