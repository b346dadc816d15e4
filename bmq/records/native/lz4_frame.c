#include "lz4_frame.h"

#include "byte_order.h"

#define MAGIC UINT32_C(0x184D2204)
#define BLOCK_BYTES_MASK UINT32_C(0x7fffffff)

/* See lz4_frame.h. The decoder that comes next verifies checksums and the blocks themselves. */
int32_t bmq_lz4_is_one_frame(const uint8_t *data, size_t data_bytes) {
    if (data_bytes < 7 || load_le32(data) != MAGIC)
        return 0;
    const uint8_t flags = data[4];
    /* Version 01, independent blocks, no reserved bit, no dictionary. */
    if ((flags & 0xe3) != 0x60)
        return 0;
    const size_t checksum_bytes = flags & 0x10 ? 4 : 0;
    size_t place = flags & 0x08 ? 15 : 7;
    for (;;) {
        if (place > data_bytes || data_bytes - place < 4)
            return 0;
        const uint32_t word = load_le32(data + place);
        place += 4;
        if (word == 0)
            break;
        const size_t block_bytes = (size_t)(word & BLOCK_BYTES_MASK) + checksum_bytes;
        if (block_bytes > data_bytes - place)
            return 0;
        place += block_bytes;
    }
    return data_bytes - place == (flags & 0x04 ? 4u : 0u);
}
