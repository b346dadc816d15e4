/* What every source of the kernel shares: the number of its interface, and how functions are exported.
 *
 * The kernel is a plain shared library that bmq/records/native/library.py loads. It allocates nothing, keeps no state
 * and never blocks, so its functions may run in any thread.
 */
#ifndef BMQ_KERNEL_H
#define BMQ_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* Counted up with every change of an exported function or structure. library.py has the same number. */
#define BMQ_KERNEL_ABI 10

#define BMQ_EXPORT __attribute__((visibility("default")))

BMQ_EXPORT int32_t bmq_kernel_abi(void);

#endif
