/*
 * Shared by the test programs: checks, and functions of the test library
 * (crates/gdrapi-capi/examples/gdrapi_sim.rs) for SIMULATED device memory.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <string.h>

#include "../../../../tests/support/check.h"

#include "gdrapi.h"
#include "gdrconfig.h"

unsigned long gdr_sim_allocate(size_t bytes);
void gdr_sim_free(unsigned long address);
int gdr_sim_read(unsigned long address, void *into, size_t bytes);
int gdr_sim_fill(unsigned long address, unsigned char value, size_t bytes);

/* One byte as the GPU reads it. */
static inline int gpu_byte(unsigned long address)
{
    unsigned char byte;
    return gdr_sim_read(address, &byte, 1) == 0 ? byte : -1;
}

/* A session with a mapped pin, created before a fork. */
struct mapped {
    gdr_t g;
    gdr_mh_t handle;
    unsigned char *va;
    /* The memory, and its first GPU page. */
    unsigned long address, aligned;
};

static inline struct mapped new_mapped(size_t bytes)
{
    struct mapped made;
    void *va;
    made.address = gdr_sim_allocate(2 * bytes);
    made.aligned = (made.address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    made.g = gdr_open();
    CHECK(made.g != NULL);
    EQUALS(0, gdr_pin_buffer(made.g, made.aligned, bytes, 0, 0, &made.handle));
    EQUALS(0, gdr_map(made.g, made.handle, &va, bytes));
    made.va = va;
    return made;
}

/* The mapping still works after a child exited. */
static inline void still_copies(const struct mapped *mapped)
{
    unsigned char out = 77, in = 0;
    EQUALS(0, gdr_copy_to_mapping(mapped->handle, mapped->va + 5, &out, 1));
    EQUALS(0, gdr_copy_from_mapping(mapped->handle, &in, mapped->va + 5, 1));
    EQUALS(77, in);
}

#endif
