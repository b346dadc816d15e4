/* CRC32C of each chunk of a block's bytes, as HDFS keeps and sends them: big-endian, one for every 512 bytes by default.
 *
 * A checksum is one chain of operations. Chunks share nothing, so several chains run at once. bmq/hdfs/chunk_checksums_twin.py
 * gives the same answers.
 */
#ifndef BMQ_CHUNK_CHECKSUMS_H
#define BMQ_CHUNK_CHECKSUMS_H

#include "kernel.h"

#define BMQ_NO_INSTRUCTION 2

/* A chunk that data has begun and not ended. Zeros: none. */
struct bmq_open_chunk {
    int64_t bytes;
    int64_t crc;
};

/* Goes on with `open`, which is left as the data ends. `is_end`: no data follows, and the last chunk may be short. The number of
 * `checksums`, of four bytes each, that were written: of chunks that ended here. -1: numbers contradict each other;
 * -BMQ_NO_INSTRUCTION: the processor does not compute CRC32C.
 */
BMQ_EXPORT int64_t bmq_chunk_checksums(
    const uint8_t *data, int64_t data_bytes, int64_t chunk_bytes, int32_t is_end, struct bmq_open_chunk *open, uint8_t *checksums
);

#endif
