/* What Kafka's Java clients read as LZ4: exactly one frame, of independent blocks. They end at its end mark without a
 * word about what is behind it, where other clients go on to a next frame. Source: KIP-57, Kafka's Lz4BlockInputStream.
 */
#ifndef BMQ_LZ4_FRAME_H
#define BMQ_LZ4_FRAME_H

#include "kernel.h"

/* 1 if the data is such a frame from its first byte to its last, else 0. */
BMQ_EXPORT int32_t bmq_lz4_is_one_frame(const uint8_t *data, size_t data_bytes);

#endif
