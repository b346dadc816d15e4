/* HMAC-MD5 (RFC 2104) of the same data by several keys at once, as integrity of HDFS wants it: one key for each DataNode.
 *
 * MD5 of one message is a chain of operations that cannot overlap. Four messages in the lanes of one register take little
 * longer than one. bmq/hdfs/sasl/signatures_twin.py gives the same answers one by one.
 */
#ifndef BMQ_HMAC_MD5_H
#define BMQ_HMAC_MD5_H

#include "kernel.h"

enum hmac_md5_sizes {
    HMAC_MD5_KEY_BYTES = 16,
    HMAC_MD5_HEAD_BYTES = 4,
    HMAC_MD5_BYTES = 16,
};

/* Signature `i` of `count` is that of head `i` and the data behind it, by key `i`. `keys`, `heads` and `signatures` have
 * `count` entries of their size each. 0, or -1 for a negative count or size.
 */
BMQ_EXPORT int64_t bmq_hmac_md5(
    const uint8_t *keys, const uint8_t *heads, int64_t count, const uint8_t *data, int64_t data_bytes, uint8_t *signatures
);

#endif
