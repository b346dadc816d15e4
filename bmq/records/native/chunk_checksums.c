#include "chunk_checksums.h"

#include <string.h>

#include "byte_order.h"

#if defined(__x86_64__)
#include <nmmintrin.h>

#define CHUNK_BYTES_MAX (INT64_C(1) << 30)
#define BY_CRC32 __attribute__((target("sse4.2")))

static int has_instruction(void) {
    return __builtin_cpu_supports("sse4.2") != 0;
}

BY_CRC32 static inline uint64_t add_word(uint64_t crc, const uint8_t *place) {
    uint64_t word;
    memcpy(&word, place, sizeof word);
    return _mm_crc32_u64(crc, word);
}

/* `crc` as it is between its bytes: inverted at the beginning and at the end. */
BY_CRC32 static uint32_t add_bytes(uint32_t crc, const uint8_t *data, int64_t bytes) {
    uint64_t found = crc;
    for (; bytes >= 8; bytes -= 8, data += 8)
        found = add_word(found, data);
    uint32_t rest = (uint32_t)found;
    for (; bytes > 0; bytes--)
        rest = _mm_crc32_u8(rest, *data++);
    return rest;
}

/* Three whole chunks, whose chains overlap: the instruction takes three cycles, and one can begin in each. */
BY_CRC32 static void write_three(const uint8_t *data, int64_t chunk_bytes, uint8_t *checksums) {
    const uint8_t *const second = data + chunk_bytes, *const third = second + chunk_bytes;
    const int64_t words_end = chunk_bytes & ~INT64_C(7);
    uint64_t a = UINT32_MAX, b = UINT32_MAX, c = UINT32_MAX;
    for (int64_t at = 0; at < words_end; at += 8) {
        a = add_word(a, data + at);
        b = add_word(b, second + at);
        c = add_word(c, third + at);
    }
    const int64_t rest = chunk_bytes - words_end;
    store_be32(checksums, ~add_bytes((uint32_t)a, data + words_end, rest));
    store_be32(checksums + 4, ~add_bytes((uint32_t)b, second + words_end, rest));
    store_be32(checksums + 8, ~add_bytes((uint32_t)c, third + words_end, rest));
}

int64_t bmq_chunk_checksums(
    const uint8_t *data, int64_t data_bytes, int64_t chunk_bytes, int32_t is_end, struct bmq_open_chunk *open, uint8_t *checksums
) {
    if (data_bytes < 0 || chunk_bytes < 1 || chunk_bytes > CHUNK_BYTES_MAX || open->bytes < 0 || open->bytes >= chunk_bytes)
        return -1;
    if (!has_instruction())
        return -BMQ_NO_INSTRUCTION;
    uint8_t *const first = checksums;
    if (open->bytes > 0) {
        const int64_t missing = chunk_bytes - open->bytes, here = missing < data_bytes ? missing : data_bytes;
        open->crc = ~add_bytes(~(uint32_t)open->crc, data, here);
        open->bytes += here;
        data += here;
        data_bytes -= here;
        if (open->bytes == chunk_bytes) {
            store_be32(checksums, (uint32_t)open->crc);
            checksums += 4;
            open->bytes = open->crc = 0;
        }
    }
    for (; data_bytes >= 3 * chunk_bytes; data_bytes -= 3 * chunk_bytes, data += 3 * chunk_bytes, checksums += 12)
        write_three(data, chunk_bytes, checksums);
    for (; data_bytes >= chunk_bytes; data_bytes -= chunk_bytes, data += chunk_bytes, checksums += 4)
        store_be32(checksums, ~add_bytes(UINT32_MAX, data, chunk_bytes));
    if (data_bytes > 0) {
        open->crc = (uint32_t)~add_bytes(UINT32_MAX, data, data_bytes);
        open->bytes = data_bytes;
    }
    if (is_end && open->bytes > 0) {
        store_be32(checksums, (uint32_t)open->crc);
        checksums += 4;
        open->bytes = open->crc = 0;
    }
    return (checksums - first) / 4;
}
#else
int64_t bmq_chunk_checksums(
    const uint8_t *data, int64_t data_bytes, int64_t chunk_bytes, int32_t is_end, struct bmq_open_chunk *open, uint8_t *checksums
) {
    (void)data, (void)data_bytes, (void)chunk_bytes, (void)is_end, (void)open, (void)checksums;
    return -BMQ_NO_INSTRUCTION;
}
#endif
