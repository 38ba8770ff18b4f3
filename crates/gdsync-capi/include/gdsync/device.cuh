/*
 * gdsync/device.cuh: words that kernels write and wait for. C++; the device functions are there for CUDA's compiler.
 */
#ifndef GDSYNC_DEVICE_CUH
#define GDSYNC_DEVICE_CUH

#include <gdsync.h>

#ifdef __cplusplus

#include <stddef.h>
#include <time.h>

#if defined(__CUDACC__)
#define GDSYNC_HOST_DEVICE __host__ __device__
#else
#define GDSYNC_HOST_DEVICE
#endif

namespace gdsync {

/* The longest wait, in clocks of a multiprocessor. */
static const clock_t large_timeout = (clock_t)1 << 32;

/* What device::wait answers if not 0: EAGAIN, EINVAL. */
enum { ERROR_TIMEOUT = 11, ERROR_INVALID = 22 };

typedef gds_wait_cond_flag_t wait_cond_t;

/* A word of 32 bits, and the value to write or to wait for. */
struct sem32 {
    typedef uint32_t T;
    typedef int32_t Tsigned;
    T sem;
    T value;

    GDSYNC_HOST_DEVICE inline volatile T *access_once() { return &sem; }
};
typedef struct sem32 sem32_t;

/* The same of a word elsewhere. */
struct isem32 {
    typedef uint32_t T;
    typedef int32_t Tsigned;
    T *ptr;
    T value;

    GDSYNC_HOST_DEVICE isem32() : ptr(NULL), value(0) {}
    GDSYNC_HOST_DEVICE inline volatile T *access_once() { return ptr; }
};
typedef struct isem32 isem32_t;

/* The same of 64 bits. */
struct isem64 {
    typedef uint64_t T;
    typedef int64_t Tsigned;
    T *ptr;
    T value;

    GDSYNC_HOST_DEVICE isem64() : ptr(NULL), value(0) {}
    GDSYNC_HOST_DEVICE inline volatile T *access_once() { return ptr; }
};
typedef struct isem64 isem64_t;

#if defined(__CUDACC__)
namespace device {

/* Writes the value, by one store. What is to be visible before is the caller's to fence. */
template <typename S> __device__ inline void release(S &sem)
{
    volatile typename S::T *word = sem.access_once();
    if (word)
        *word = sem.value;
}

/* Looks at the word until `Condition` holds: 0, ERROR_TIMEOUT, or ERROR_INVALID without a word. */
template <typename Condition, typename S> __device__ inline int wait_until(S &sem)
{
    volatile typename S::T *word = sem.access_once();
    if (!word)
        return ERROR_INVALID;
    /* The counter of 64 bits: that of 32 wraps before the time is over. */
    const long long begun = clock64();
    do {
        const typename S::T seen = *word;
        if (Condition::template holds<S>(seen, sem.value))
            return 0;
        __threadfence_block();
    } while (clock64() - begun < (long long)large_timeout);
    return ERROR_TIMEOUT;
}

struct is_eq {
    template <typename S> __device__ static inline bool holds(typename S::T seen, typename S::T value) { return seen == value; }
};
struct is_geq {
    template <typename S> __device__ static inline bool holds(typename S::T seen, typename S::T value)
    {
        return (typename S::Tsigned)(seen - value) >= 0;
    }
};
struct is_and {
    template <typename S> __device__ static inline bool holds(typename S::T seen, typename S::T value)
    {
        return (seen & value) != 0;
    }
};
struct is_nor {
    template <typename S> __device__ static inline bool holds(typename S::T seen, typename S::T value)
    {
        return (typename S::T) ~(seen | value) != 0;
    }
};

/* Waits for the conditions of gds_wait_cond_flag_t, in the width of the word. */
template <typename S> __device__ inline int wait_eq(S &sem) { return wait_until<is_eq>(sem); }
template <typename S> __device__ inline int wait_geq(S &sem) { return wait_until<is_geq>(sem); }
template <typename S> __device__ inline int wait_and(S &sem) { return wait_until<is_and>(sem); }
template <typename S> __device__ inline int wait_nor(S &sem) { return wait_until<is_nor>(sem); }

template <typename S> __device__ inline int wait(S &sem, wait_cond_t cond)
{
    switch (cond) {
    case GDS_WAIT_COND_EQ:
        return wait_eq(sem);
    case GDS_WAIT_COND_GEQ:
        return wait_geq(sem);
    case GDS_WAIT_COND_AND:
        return wait_and(sem);
    case GDS_WAIT_COND_NOR:
        return wait_nor(sem);
    default:
        return ERROR_INVALID;
    }
}

} /* namespace device */
#endif /* __CUDACC__ */

} /* namespace gdsync */

#undef GDSYNC_HOST_DEVICE
#endif /* __cplusplus */

#endif /* GDSYNC_DEVICE_CUH */
