/*
 * What the test programs share: a check that says where it failed, and the functions that only the test build of the library
 * has (crates/gdrapi-capi/examples/gdrapi_sim.rs), which hand out SIMULATED device memory and look into it.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gdrapi.h"
#include "gdrconfig.h"

unsigned long gdr_sim_allocate(size_t bytes);
void gdr_sim_free(unsigned long address);
int gdr_sim_read(unsigned long address, void *into, size_t bytes);
int gdr_sim_fill(unsigned long address, unsigned char value, size_t bytes);

/* One byte as the GPU has it. */
static inline int gpu_byte(unsigned long address)
{
    unsigned char byte;
    return gdr_sim_read(address, &byte, 1) == 0 ? byte : -1;
}

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                        \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

#define EQUALS(expected, actual)                                                                                           \
    do {                                                                                                                   \
        long long expected_ = (long long)(expected), actual_ = (long long)(actual);                                        \
        if (expected_ != actual_) {                                                                                        \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #actual, actual_, expected_);             \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

#endif
