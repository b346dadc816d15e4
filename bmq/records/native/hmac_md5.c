#include "hmac_md5.h"

#include <string.h>

#include "byte_order.h"

enum { LANES = 4, BLOCK_BYTES = 64, WORDS = BLOCK_BYTES / 4, LENGTH_PLACE = 56, STEPS = 64 };

typedef uint32_t lanes __attribute__((vector_size(4 * LANES)));

struct state {
    lanes a, b, c, d;
};

/* RFC 1321: the integer part of 2^32 times abs(sin(i)). */
static const uint32_t SINES[STEPS] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

#define F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define G(x, y, z) F(z, x, y)
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))

#define STEP(f, a, b, c, d, step, word, shift)   \
    (a) += f(b, c, d) + WORD(word) + SINES[step]; \
    (a) = ((a) << (shift) | (a) >> (32 - (shift))) + (b);

#define FOUR(f, step, word, more, s0, s1, s2, s3)                     \
    STEP(f, a, b, c, d, (step), (word) % WORDS, s0)                   \
    STEP(f, d, a, b, c, (step) + 1, ((word) + (more)) % WORDS, s1)     \
    STEP(f, c, d, a, b, (step) + 2, ((word) + 2 * (more)) % WORDS, s2) \
    STEP(f, b, c, d, a, (step) + 3, ((word) + 3 * (more)) % WORDS, s3)

#define ROUND(f, step, word, more, s0, s1, s2, s3)             \
    FOUR(f, step, word, more, s0, s1, s2, s3)                  \
    FOUR(f, (step) + 4, (word) + 4 * (more), more, s0, s1, s2, s3) \
    FOUR(f, (step) + 8, (word) + 8 * (more), more, s0, s1, s2, s3) \
    FOUR(f, (step) + 12, (word) + 12 * (more), more, s0, s1, s2, s3)

#define BLOCK                              \
    ROUND(F, 0, 0, 1, 7, 12, 17, 22)       \
    ROUND(G, 16, 1, 5, 5, 9, 14, 20)       \
    ROUND(H, 32, 5, 3, 4, 11, 16, 23)      \
    ROUND(I, 48, 0, 7, 6, 10, 15, 21)

static inline void put_word(uint8_t *place, uint32_t word) {
    for (int i = 0; i < 4; i++)
        place[i] = (uint8_t)(word >> 8 * i);
}

/* Blocks that are the same in each lane. */
#define WORD(word) load_le32(data + 4 * (word))
#define TAKE_BLOCKS                                    \
    lanes a = state->a, b = state->b, c = state->c, d = state->d; \
    for (; blocks > 0; blocks--, data += BLOCK_BYTES) { \
        const lanes a0 = a, b0 = b, c0 = c, d0 = d;     \
        BLOCK                                          \
        a += a0, b += b0, c += c0, d += d0;             \
    }                                                  \
    state->a = a, state->b = b, state->c = c, state->d = d;

static void take_plainly(struct state *state, const uint8_t *data, int64_t blocks) {
    TAKE_BLOCKS
}

#if defined(__x86_64__)
/* It rotates, and computes any function of three words, in one instruction. */
__attribute__((target("avx512vl"))) static void take_by_avx512(struct state *state, const uint8_t *data, int64_t blocks) {
    TAKE_BLOCKS
}

static void take(struct state *state, const uint8_t *data, int64_t blocks) {
    if (__builtin_cpu_supports("avx512vl"))
        take_by_avx512(state, data, blocks);
    else
        take_plainly(state, data, blocks);
}
#else
static void take(struct state *state, const uint8_t *data, int64_t blocks) {
    take_plainly(state, data, blocks);
}
#endif
#undef WORD

/* One block that differs from lane to lane. */
#define WORD(word) words[word]
static void take_different(struct state *state, uint8_t blocks[LANES][BLOCK_BYTES]) {
    lanes words[WORDS];
    lanes a = state->a, b = state->b, c = state->c, d = state->d;
    for (int i = 0; i < WORDS; i++)
        for (int lane = 0; lane < LANES; lane++)
            words[i][lane] = load_le32(blocks[lane] + 4 * i);
    BLOCK
    state->a += a, state->b += b, state->c += c, state->d += d;
}
#undef WORD

static struct state beginning(void) {
    const lanes zero = {0};
    return (struct state){zero + 0x67452301, zero + 0xefcdab89, zero + 0x98badcfe, zero + 0x10325476};
}

static void take_keys(struct state *state, uint8_t keys[LANES][HMAC_MD5_KEY_BYTES], uint8_t pad) {
    uint8_t blocks[LANES][BLOCK_BYTES];
    memset(blocks, pad, sizeof blocks);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < HMAC_MD5_KEY_BYTES; i++)
            blocks[lane][i] ^= keys[lane][i];
    take_different(state, blocks);
}

/* The end of a message, with its length behind it: `rest` is less than a block. */
static void take_end(struct state *state, uint8_t rest[LANES][BLOCK_BYTES], int64_t rest_bytes, int64_t message_bytes) {
    for (int lane = 0; lane < LANES; lane++) {
        memset(rest[lane] + rest_bytes, 0, (size_t)(BLOCK_BYTES - rest_bytes));
        rest[lane][rest_bytes] = 0x80;
    }
    if (rest_bytes >= LENGTH_PLACE) {
        take_different(state, rest);
        memset(rest, 0, LANES * BLOCK_BYTES);
    }
    for (int lane = 0; lane < LANES; lane++) {
        put_word(rest[lane] + LENGTH_PLACE, (uint32_t)((uint64_t)message_bytes << 3));
        put_word(rest[lane] + LENGTH_PLACE + 4, (uint32_t)((uint64_t)message_bytes >> 29));
    }
    take_different(state, rest);
}

static void put_digests(const struct state *state, uint8_t digests[LANES][BLOCK_BYTES]) {
    for (int lane = 0; lane < LANES; lane++) {
        put_word(digests[lane], state->a[lane]);
        put_word(digests[lane] + 4, state->b[lane]);
        put_word(digests[lane] + 8, state->c[lane]);
        put_word(digests[lane] + 12, state->d[lane]);
    }
}

static void sign(
    uint8_t keys[LANES][HMAC_MD5_KEY_BYTES], uint8_t heads[LANES][HMAC_MD5_HEAD_BYTES], const uint8_t *data,
    int64_t data_bytes, uint8_t blocks[LANES][BLOCK_BYTES]
) {
    const int64_t message_bytes = BLOCK_BYTES + HMAC_MD5_HEAD_BYTES + data_bytes;
    int64_t taken = 0, rest_bytes = HMAC_MD5_HEAD_BYTES;
    struct state state = beginning();
    take_keys(&state, keys, 0x36);
    for (int lane = 0; lane < LANES; lane++)
        memcpy(blocks[lane], heads[lane], HMAC_MD5_HEAD_BYTES);
    if (data_bytes >= BLOCK_BYTES - HMAC_MD5_HEAD_BYTES) {
        taken = BLOCK_BYTES - HMAC_MD5_HEAD_BYTES;
        for (int lane = 0; lane < LANES; lane++)
            memcpy(blocks[lane] + HMAC_MD5_HEAD_BYTES, data, (size_t)taken);
        take_different(&state, blocks);
        const int64_t whole_blocks = (data_bytes - taken) / BLOCK_BYTES;
        take(&state, data + taken, whole_blocks);
        taken += whole_blocks * BLOCK_BYTES;
        rest_bytes = 0;
    }
    const int64_t left_bytes = data_bytes - taken;
    for (int lane = 0; left_bytes && lane < LANES; lane++)
        memcpy(blocks[lane] + rest_bytes, data + taken, (size_t)left_bytes);
    take_end(&state, blocks, rest_bytes + left_bytes, message_bytes);
    put_digests(&state, blocks);
    state = beginning();
    take_keys(&state, keys, 0x5c);
    take_end(&state, blocks, HMAC_MD5_BYTES, BLOCK_BYTES + HMAC_MD5_BYTES);
    put_digests(&state, blocks);
}

int64_t bmq_hmac_md5(
    const uint8_t *keys, const uint8_t *heads, int64_t count, const uint8_t *data, int64_t data_bytes, uint8_t *signatures
) {
    if (count < 0 || data_bytes < 0)
        return -1;
    for (int64_t first = 0; first < count; first += LANES) {
        uint8_t of_keys[LANES][HMAC_MD5_KEY_BYTES], of_heads[LANES][HMAC_MD5_HEAD_BYTES], blocks[LANES][BLOCK_BYTES];
        for (int lane = 0; lane < LANES; lane++) {
            /* A lane without a message of its own does the last one's again. */
            const int64_t which = first + lane < count ? first + lane : count - 1;
            memcpy(of_keys[lane], keys + which * HMAC_MD5_KEY_BYTES, HMAC_MD5_KEY_BYTES);
            memcpy(of_heads[lane], heads + which * HMAC_MD5_HEAD_BYTES, HMAC_MD5_HEAD_BYTES);
        }
        sign(of_keys, of_heads, data, data_bytes, blocks);
        for (int lane = 0; lane < LANES && first + lane < count; lane++)
            memcpy(signatures + (first + lane) * HMAC_MD5_BYTES, blocks[lane], HMAC_MD5_BYTES);
    }
    return 0;
}
