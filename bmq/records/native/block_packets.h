/* The packets of a block as a DataNode sends them to a reader: those that are whole in memory, many by one call.
 *
 * A DataNode that may not hand its file to the kernel (it encrypts, or signs) sends packets of 4 KiB. bmq/hdfs/read_packets.py
 * takes packets one by one, and is what tells what is wrong with one.
 */
#ifndef BMQ_BLOCK_PACKETS_H
#define BMQ_BLOCK_PACKETS_H

#include "kernel.h"

/* `next_offset`: of the block, where the next packet has to begin. `filled`: bytes of the answer that are there, of `answer_bytes`. */
struct bmq_block_read {
    int64_t next_offset;
    int64_t filled;
    int64_t answer_bytes;
    int64_t chunk_bytes;
};

/* Copies the data of whole packets at the beginning of `data` to their place in `answer`, and moves `read` behind them. Stops in front
 * of the first one that is not whole, is the last one, or is not exactly as it should be, its CRC32Cs included. How many bytes of
 * `data` the packets before it have; -1: numbers contradict each other.
 */
BMQ_EXPORT int64_t bmq_take_packets(const uint8_t *data, int64_t data_bytes, struct bmq_block_read *read, uint8_t *answer);

#endif
