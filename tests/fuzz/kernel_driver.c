/* The inputs of kernel_case.h as cases. */
#include "kernel_case.h"

static void answer(const uint8_t *data, size_t bytes) {
    run_case(data, bytes, stdout);
}

int main(void) {
    return answer_cases(0, answer);
}
