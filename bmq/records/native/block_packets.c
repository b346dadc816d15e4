#include "block_packets.h"

#include <string.h>

#include "byte_order.h"
#include "chunk_checksums.h"

/* int32 length (of itself, checksums and data), int16 length of the header; a PacketHeader whose four fields have fixed sizes. */
enum {
    LENGTHS_BYTES = 6,
    HEADER_BYTES = 25,
    HEAD_BYTES = LENGTHS_BYTES + HEADER_BYTES,
    CHECKSUM_BYTES = 4,
    AT_ONCE = 64,
    OFFSET_TAG = 0x09,
    SEQNO_TAG = 0x11,
    LAST_TAG = 0x18,
    DATA_BYTES_TAG = 0x25,
};

/* Of `count` chunks, of which the last one may be short. */
static int are_checksums_right(const uint8_t *checksums, const uint8_t *data, int64_t data_bytes, int64_t chunk_bytes) {
    uint8_t found[AT_ONCE * CHECKSUM_BYTES];
    struct bmq_open_chunk open = {0, 0};
    while (data_bytes > 0) {
        const int64_t here = data_bytes < AT_ONCE * chunk_bytes ? data_bytes : AT_ONCE * chunk_bytes;
        const int64_t count = bmq_chunk_checksums(data, here, chunk_bytes, 1, &open, found);
        if (count < 1 || memcmp(found, checksums, (size_t)count * CHECKSUM_BYTES) != 0)
            return 0;
        checksums += count * CHECKSUM_BYTES;
        data += here;
        data_bytes -= here;
    }
    return 1;
}

int64_t bmq_take_packets(const uint8_t *data, int64_t data_bytes, struct bmq_block_read *read, uint8_t *answer) {
    const int64_t chunk_bytes = read->chunk_bytes;
    int64_t at = 0;
    if (data_bytes < 0 || chunk_bytes < 1 || chunk_bytes > 1 << 20 || read->filled < 0 || read->filled > read->answer_bytes)
        return -1;
    while (data_bytes - at >= HEAD_BYTES && read->filled % chunk_bytes == 0) {
        const uint8_t *const packet = data + at, *const header = packet + LENGTHS_BYTES;
        const int64_t rest_bytes = (int32_t)load_be32(packet), size_bytes = (int32_t)load_le32(header + 21);
        const int64_t header_bytes = (int64_t)packet[4] << 8 | packet[5];
        if (header_bytes != HEADER_BYTES || header[0] != OFFSET_TAG || header[9] != SEQNO_TAG || header[18] != LAST_TAG ||
            header[19] != 0 || header[20] != DATA_BYTES_TAG)
            break;
        if ((int64_t)load_le64(header + 1) != read->next_offset || size_bytes < 1 ||
            size_bytes > read->answer_bytes - read->filled)
            break;
        const int64_t checksums_bytes = (size_bytes + chunk_bytes - 1) / chunk_bytes * CHECKSUM_BYTES;
        if (rest_bytes != 4 + checksums_bytes + size_bytes || data_bytes - at - HEAD_BYTES < checksums_bytes + size_bytes)
            break;
        const uint8_t *const checksums = packet + HEAD_BYTES, *const content = checksums + checksums_bytes;
        if (!are_checksums_right(checksums, content, size_bytes, chunk_bytes))
            break;
        memcpy(answer + read->filled, content, (size_t)size_bytes);
        read->filled += size_bytes;
        read->next_offset += size_bytes;
        at += HEAD_BYTES + checksums_bytes + size_bytes;
    }
    return at;
}
