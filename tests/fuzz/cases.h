/* What the drivers of the kernel share: memory of exact sizes, and the loop over the cases that are read.
 *
 * Cases come from the standard input, each with its length in front (32 bits, little-endian). A driver writes a line of
 * answers for each.
 */
#ifndef CASES_H
#define CASES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Zeroed memory of exactly this size, so that a sanitizer sees each byte too many. */
static inline void *exactly(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        abort();
    return memory;
}

/* These bytes in memory of exactly their size. */
static inline void *copied(const void *data, size_t bytes) {
    void *memory = exactly(bytes);
    if (bytes)
        memcpy(memory, data, bytes);
    return memory;
}

/* Answers every case. Returns the exit status: 1 after a case that is cut short, or has fewer bytes than `bytes_min`. */
static inline int answer_cases(size_t bytes_min, void (*answer)(const uint8_t *data, size_t bytes)) {
    uint8_t length[4];
    while (fread(length, 1, 4, stdin) == 4) {
        const size_t bytes = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
        uint8_t *data = exactly(bytes);
        if (bytes < bytes_min || fread(data, 1, bytes, stdin) != bytes)
            return 1;
        answer(data, bytes);
        putchar('\n');
        free(data);
    }
    return 0;
}

#endif
