/* The same inputs, found by libFuzzer. */
#include "kernel_case.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    run_case(data, bytes, NULL);
    return 0;
}
