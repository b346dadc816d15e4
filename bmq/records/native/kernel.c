#include "kernel.h"

int32_t bmq_kernel_abi(void) {
    return BMQ_KERNEL_ABI;
}
