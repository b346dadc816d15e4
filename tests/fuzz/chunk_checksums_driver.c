/* Reads cases of the kernel's chunk checksums and writes a line for each. A case is one byte, how many pieces the data comes in (one at
 * least), one byte, the bytes of a chunk (one at least), and the data.
 */
#include "cases.h"
#include "chunk_checksums.h"

static void case_of_pieces(const uint8_t *data, size_t bytes) {
    const int64_t pieces = data[0] ? data[0] : 1, chunk_bytes = data[1] ? data[1] : 1, size = (int64_t)bytes - 2;
    const int64_t each = size / pieces, count = (size + chunk_bytes - 1) / chunk_bytes;
    uint8_t *checksums = exactly((size_t)count * 4);
    struct bmq_open_chunk open = {0};
    int64_t written = 0, at = 0;
    for (int64_t number = 0; number < pieces; number++) {
        const int is_end = number == pieces - 1;
        const int64_t length = is_end ? size - at : each;
        uint8_t *piece = copied(data + 2 + at, (size_t)length);
        const int64_t found = bmq_chunk_checksums(piece, length, chunk_bytes, is_end, &open, checksums + 4 * written);
        free(piece);
        if (found < 0) {
            printf("%lld", (long long)found);
            free(checksums);
            return;
        }
        written += found;
        at += length;
    }
    printf("%lld ", (long long)written);
    for (int64_t place = 0; place < 4 * written; place++)
        printf("%02x", checksums[place]);
    free(checksums);
}

int main(void) {
    return answer_cases(2, case_of_pieces);
}
