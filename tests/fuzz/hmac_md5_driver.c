/* Reads cases of the kernel's signatures, each with its length in front (32 bits, little-endian), and writes a line of
 * signatures for each. A case is one byte, how many keys, the keys, the heads, and the data.
 */
#include "cases.h"
#include "hmac_md5.h"

static void signed_case(const uint8_t *data, size_t bytes) {
    const size_t count = data[0], keys_bytes = count * HMAC_MD5_KEY_BYTES, heads_bytes = count * HMAC_MD5_HEAD_BYTES;
    if (bytes < 1 + keys_bytes + heads_bytes)
        exit(1);
    const size_t data_bytes = bytes - 1 - keys_bytes - heads_bytes;
    uint8_t *keys = copied(data + 1, keys_bytes), *heads = copied(data + 1 + keys_bytes, heads_bytes);
    uint8_t *message = copied(data + 1 + keys_bytes + heads_bytes, data_bytes);
    uint8_t *signatures = exactly(count * HMAC_MD5_BYTES);
    const int64_t status = bmq_hmac_md5(keys, heads, (int64_t)count, message, (int64_t)data_bytes, signatures);
    printf("%lld ", (long long)status);
    for (size_t at = 0; at < count * HMAC_MD5_BYTES; at++)
        printf("%02x", signatures[at]);
    free(keys);
    free(heads);
    free(message);
    free(signatures);
}

int main(void) {
    return answer_cases(1, signed_case);
}
