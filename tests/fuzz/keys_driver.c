/* Reads cases of the kernel's keys, each with its length in front (32 bits, little-endian), and writes a line of answers for each.
 *
 * A case is one byte for its kind. 0: record count, last delta (a byte each), a body. 1: state count, hash count, low, first,
 * end, me, records_max (a byte each), then states, hashes (a byte each, 0 to 3 and 255 for none), numbers, and the numbers of
 * locks that are the member's. All owners are 1.
 */
#include "cases.h"
#include "keys.h"

static void hash_case(const uint8_t *data, size_t bytes) {
    const int64_t count = data[0], last_delta = data[1];
    uint8_t *body = copied(data + 2, bytes - 2);
    uint16_t *hashes = exactly(2 * ((size_t)last_delta + 1));
    printf("%lld", (long long)bmq_key_hashes(body, 0, (int64_t)bytes - 2, count, last_delta, hashes));
    for (int64_t number = 0; number <= last_delta; number++)
        printf(" %u", hashes[number]);
    free(body);
    free(hashes);
}

static void take_case(const uint8_t *data, size_t bytes) {
    const size_t state_count = data[0], hash_count = data[1];
    const int64_t records_max = data[6];
    uint8_t *states = exactly(state_count), *mine = exactly(65536), *blocked = exactly(65536);
    uint16_t *numbers = exactly(2 * state_count), *hashes = exactly(2 * hash_count), *owners = exactly(2 * BMQ_KEY_SLOTS);
    int64_t *spans = exactly(16 * (size_t)records_max);
    struct bmq_key_taken taken;
    if (bytes < 7 + 2 * state_count + hash_count)
        exit(1);
    data += 7;
    memcpy(states, data, state_count);
    for (size_t at = 0; at < hash_count; at++)
        hashes[at] = data[state_count + at] == 255 ? 65535 : data[state_count + at];
    for (size_t at = 0; at < state_count; at++)
        numbers[at] = data[state_count + hash_count + at];
    for (size_t at = 7 + 2 * state_count + hash_count; at < bytes; at++)
        mine[data[at - 7]] = 1;
    for (size_t slot = 0; slot < BMQ_KEY_SLOTS; slot++)
        owners[slot] = 1;
    data -= 7;
    struct bmq_key_window window = {states,      numbers, hashes, mine, owners, blocked, (int64_t)state_count, (int64_t)hash_count,
                            data[2], data[3], data[4], data[5]};
    const int64_t status = bmq_take_keys(&window, records_max, spans, records_max, &taken);
    printf("%lld %lld %lld %lld %lld |", (long long)status, (long long)taken.taken, (long long)taken.next,
           (long long)taken.unknown, (long long)taken.waiting);
    for (int64_t at = 0; at < taken.span_count; at++)
        printf(" %lld-%lld", (long long)spans[2 * at], (long long)spans[2 * at + 1]);
    free(states);
    free(mine);
    free(blocked);
    free(numbers);
    free(hashes);
    free(owners);
    free(spans);
}

static void answer(const uint8_t *data, size_t bytes) {
    if (data[0])
        take_case(data + 1, bytes - 1);
    else
        hash_case(data + 1, bytes - 1);
}

int main(void) {
    uint64_t *seeds = exactly(2 * sizeof *seeds);
    uint16_t *owners = exactly(2 * BMQ_KEY_SLOTS);
    if (bmq_own_slots(seeds, 2, owners) || !bmq_own_slots(seeds, 0, owners))
        return 1;
    free(seeds);
    free(owners);
    return answer_cases(8, answer);
}
