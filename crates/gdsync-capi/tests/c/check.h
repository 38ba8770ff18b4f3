/*
 * Helpers of the test programs: checks, and a context on a SIMULATED GPU (crate fake-cuda).
 */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../../tests/support/check.h"

#include <gdsync.h>
#include <gdsync/mlx5.h>
#include <gdsync/tools.h>

/* Only the test build of the library has it (crates/gdsync-capi/examples/gdsync_sim.rs). */
void gds_sim_begin(void);

/* A context on the first GPU, current on this thread. */
static inline CUcontext start(void)
{
    CUdevice device;
    CUcontext context;
    gds_sim_begin();
    /* Ends a program that hangs. */
    alarm(240);
    EQUALS(CUDA_SUCCESS, cuInit(0));
    EQUALS(CUDA_SUCCESS, cuDeviceGet(&device, 0));
    EQUALS(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, device));
    EQUALS(CUDA_SUCCESS, cuCtxSetCurrent(context));
    return context;
}

static inline CUstream new_stream(void)
{
    CUstream stream;
    EQUALS(CUDA_SUCCESS, cuStreamCreate(&stream, 1));
    return stream;
}

static inline uint32_t seen(const void *word)
{
    return __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
}

static inline void store(void *word, uint32_t value)
{
    __atomic_store_n((uint32_t *)word, value, __ATOMIC_RELEASE);
}

/* Waits up to a minute until a word has a value. */
static inline void until(const void *word, uint32_t value)
{
    struct timespec start_time, now;
    clock_gettime(CLOCK_MONOTONIC, &start_time);
    while (seen(word) != value) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start_time.tv_sec > 60) {
            fprintf(stderr, "a word is %#x, not %#x, after a minute\n", seen(word), value);
            exit(1);
        }
        usleep(100);
    }
}

/* Descriptors, filled in by the library. */
static inline gds_descriptor_t wait_for(void *word, uint32_t value, gds_wait_cond_flag_t condition, int flags)
{
    gds_descriptor_t made;
    memset(&made, 0, sizeof made);
    made.tag = GDS_TAG_WAIT_VALUE32;
    EQUALS(0, gds_prepare_wait_value32(&made.wait32, (uint32_t *)word, value, condition, flags));
    return made;
}

static inline gds_descriptor_t write_word(void *word, uint32_t value, int flags)
{
    gds_descriptor_t made;
    memset(&made, 0, sizeof made);
    made.tag = GDS_TAG_WRITE_VALUE32;
    EQUALS(0, gds_prepare_write_value32(&made.write32, (uint32_t *)word, value, flags));
    return made;
}

static inline gds_descriptor_t write_bytes(void *to, const void *from, size_t count, int flags)
{
    gds_descriptor_t made;
    memset(&made, 0, sizeof made);
    made.tag = GDS_TAG_WRITE_MEMORY;
    EQUALS(0, gds_prepare_write_memory(&made.writemem, (uint8_t *)to, (const uint8_t *)from, count, flags));
    return made;
}

static inline gds_descriptor_t sends(gds_send_request_t *request)
{
    gds_descriptor_t made;
    memset(&made, 0, sizeof made);
    made.tag = GDS_TAG_SEND;
    made.send = request;
    return made;
}

static inline gds_descriptor_t waits(gds_wait_request_t *request)
{
    gds_descriptor_t made;
    memset(&made, 0, sizeof made);
    made.tag = GDS_TAG_WAIT;
    made.wait = request;
    return made;
}

#endif
