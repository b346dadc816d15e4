/* Reads cases of the kernel's signatures, each with its length in front (32 bits, little-endian), and writes a line of
 * signatures for each. A case is one byte, how many keys, the keys, the heads, and the data.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hmac_md5.h"

/* Memory of exactly this size, so that a sanitizer sees each byte too many. */
static uint8_t *exactly(const uint8_t *data, size_t bytes) {
    uint8_t *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        exit(1);
    if (bytes && data)
        memcpy(memory, data, bytes);
    return memory;
}

static int signed_case(const uint8_t *data, size_t bytes) {
    const size_t count = data[0], keys_bytes = count * HMAC_MD5_KEY_BYTES, heads_bytes = count * HMAC_MD5_HEAD_BYTES;
    if (bytes < 1 + keys_bytes + heads_bytes)
        return 1;
    const size_t data_bytes = bytes - 1 - keys_bytes - heads_bytes;
    uint8_t *keys = exactly(data + 1, keys_bytes), *heads = exactly(data + 1 + keys_bytes, heads_bytes);
    uint8_t *message = exactly(data + 1 + keys_bytes + heads_bytes, data_bytes);
    uint8_t *signatures = exactly(count * HMAC_MD5_BYTES);
    const int64_t status = bmq_hmac_md5(keys, heads, (int64_t)count, message, (int64_t)data_bytes, signatures);
    printf("%lld ", (long long)status);
    for (size_t at = 0; at < count * HMAC_MD5_BYTES; at++)
        printf("%02x", signatures[at]);
    putchar('\n');
    free(keys);
    free(heads);
    free(message);
    free(signatures);
    return 0;
}

int main(void) {
    uint8_t length[4];
    while (fread(length, 1, 4, stdin) == 4) {
        const size_t bytes = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
        uint8_t *data = exactly(bytes);
        if (!bytes || fread(data, 1, bytes, stdin) != bytes || signed_case(data, bytes))
            return 1;
        free(data);
    }
    return 0;
}
