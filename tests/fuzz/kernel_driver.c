/* Reads inputs, each with its length in front (32 bits, little-endian), and writes a line of answers for each. */
#include "kernel_case.h"

int main(void) {
    uint8_t length[4];
    while (fread(length, 1, 4, stdin) == 4) {
        const size_t bytes = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
        uint8_t *data = malloc(bytes ? bytes : 1);
        if (!data || fread(data, 1, bytes, stdin) != bytes)
            return 1;
        run_case(data, bytes, stdout);
        putchar('\n');
        free(data);
    }
    return 0;
}
