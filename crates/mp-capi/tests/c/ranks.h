/*
 * Helpers of the test programs: ranks of MPI, each with a context on a SIMULATED GPU (crate fake-cuda), and registered memory.
 */
#ifndef RANKS_H
#define RANKS_H

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../../tests/support/check.h"

#include <mp.h>

#ifdef __cplusplus
extern "C"
#endif
/* Only the test build of the library has it (crates/mp-capi/examples/mp_sim.rs). */
void mp_sim_begin(void);

enum { BYTES = 1 << 16 };

static int rank, size, peer;
static unsigned char *memory;
static mp_reg_t region;

/* MPI and a context on the first GPU. `peer` is the other one of two ranks. */
static inline void start(void)
{
    CUdevice device;
    CUcontext context;
    mp_sim_begin();
    /* Ends a program that hangs. */
    alarm(240);
    EQUALS(MPI_SUCCESS, MPI_Init(NULL, NULL));
    EQUALS(MPI_SUCCESS, MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    EQUALS(MPI_SUCCESS, MPI_Comm_size(MPI_COMM_WORLD, &size));
    peer = 1 - rank;
    EQUALS(CUDA_SUCCESS, cuInit(0));
    EQUALS(CUDA_SUCCESS, cuDeviceGet(&device, 0));
    EQUALS(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, device));
    EQUALS(CUDA_SUCCESS, cuCtxSetCurrent(context));
}

/* Two ranks, connected, with registered memory. */
static inline void begin(void)
{
    start();
    EQUALS(2, size);
    EQUALS(MP_SUCCESS, mp_init(MPI_COMM_WORLD, &peer, 1, MP_INIT_DEFAULT, 0));
    CHECK(!posix_memalign((void **)&memory, 4096, BYTES));
    memset(memory, 0, BYTES);
    EQUALS(MP_SUCCESS, mp_register(memory, BYTES, &region));
}

static inline void barrier(void) { EQUALS(MPI_SUCCESS, MPI_Barrier(MPI_COMM_WORLD)); }

static inline void finish(const char *name)
{
    EQUALS(MP_SUCCESS, mp_deregister(&region));
    free(memory);
    mp_finalize();
    MPI_Finalize();
    printf("%s: ok\n", name);
}

static inline CUstream new_stream(void)
{
    CUstream stream;
    EQUALS(CUDA_SUCCESS, cuStreamCreate(&stream, 1));
    return stream;
}

/* Waits for a stream, and ends it. */
static inline void end(CUstream stream)
{
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(stream));
}

/* Bytes that depend on place and seed, and whether memory has them. */
static inline void fill(size_t offset, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; ++i)
        memory[offset + i] = (unsigned char)(i * 31 + i / 251 + seed * 7 + 1);
}

static inline int has(size_t offset, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; ++i)
        if (memory[offset + i] != (unsigned char)(i * 31 + i / 251 + seed * 7 + 1))
            return 0;
    return 1;
}

static inline int is_zero(size_t offset, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i)
        if (memory[offset + i])
            return 0;
    return 1;
}

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
