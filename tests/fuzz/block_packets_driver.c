/* Reads cases of packets of a block and writes a line for each: how many bytes were taken, how many of the answer are there, and these.
 * A case is the bytes of a chunk (16 bits, one at least), those of the answer (16 bits), both little-endian, and the packets, from
 * byte 0 of the block on.
 */
#include "block_packets.h"
#include "cases.h"

static void case_of_packets(const uint8_t *data, size_t bytes) {
    const int64_t chunk_bytes = data[0] | data[1] << 8, answer_bytes = data[2] | data[3] << 8;
    uint8_t *packets = copied(data + 4, bytes - 4), *answer = exactly((size_t)answer_bytes);
    struct bmq_block_read read = {0, 0, answer_bytes, chunk_bytes ? chunk_bytes : 1};
    const int64_t taken = bmq_take_packets(packets, (int64_t)bytes - 4, &read, answer);
    printf("%lld %lld ", (long long)taken, (long long)read.filled);
    for (int64_t place = 0; place < read.filled; place++)
        printf("%02x", answer[place]);
    free(packets);
    free(answer);
}

int main(void) {
    return answer_cases(4, case_of_packets);
}
