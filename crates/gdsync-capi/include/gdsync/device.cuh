/*
 * gdsync/device.cuh: words that kernels write and wait for, and send queues of mlx5 that kernels drive. C++; the device functions are there
 * for CUDA's compiler.
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

/*
 * The send side of an mlx5 queue pair that a kernel drives: nothing else posts to it, rings it or polls its completion queue. The addresses
 * are the GPU's. On a NIC they are those of mlx5dv_qp and mlx5dv_cq: cudaHostRegister with cudaHostRegisterMapped for memory, and with
 * cudaHostRegisterIoMemory for the page of the doorbell, which needs PeerMappingOverride=1 or CAP_SYS_ADMIN. Every request is signalled.
 */
struct send_queue {
    unsigned char *ring;      /* blocks of 64 bytes */
    uint32_t blocks;          /* their number, a power of two */
    uint32_t qpn;
    uint32_t *record;         /* the send queue's doorbell record, or NULL for a NIC that needs none */
    uint64_t *doorbell;       /* the register */
    unsigned char *cqes;      /* CQEs of 64 bytes, which begin with 0xf in the upper half of their last byte */
    uint32_t cqe_count;       /* a power of two */
    uint32_t *cqe_record;     /* the doorbell record of the completion queue */
    uint32_t posted;          /* blocks posted; the kernel counts */
    uint32_t polled;          /* CQEs polled; the kernel counts */
};
typedef struct send_queue send_queue_t;

/* A range of registered memory for a WRITE. */
struct send_range {
    uint64_t address;
    uint32_t key;
    uint32_t length;
};
typedef struct send_range send_range_t;

/* What device::poll answers besides 0 and ERROR_TIMEOUT: the NIC reports an error (EIO). */
enum { ERROR_COMPLETION = 5 };

#if defined(__CUDACC__)
namespace device {

__device__ inline uint32_t big_endian(uint32_t value)
{
    return value >> 24 | (value >> 8 & 0xff00) | (value << 8 & 0xff0000) | value << 24;
}

/* True if `count` more requests fit. Each takes one block and one CQE. */
__device__ inline bool fits(const send_queue &queue, uint32_t count)
{
    const uint32_t pending = queue.posted - queue.polled + count;
    return pending <= queue.blocks && pending <= queue.cqe_count;
}

/*
 * Builds an RDMA WRITE as request `ahead` from the next one on, so that several threads can build a batch together. It is not posted yet:
 * that is what ring does. The threads must see room for it (fits), and meet (__syncwarp, __syncthreads) before one of them calls ring.
 */
__device__ inline void build_write(const send_queue &queue, uint32_t ahead, const send_range &local, uint64_t remote, uint32_t rkey)
{
    const uint32_t index = queue.posted + ahead;
    volatile uint32_t *wqe = (volatile uint32_t *)(queue.ring + (size_t)(index & (queue.blocks - 1)) * 64);
    wqe[0] = big_endian((index & 0xffff) << 8 | 0x08); /* MLX5_OPCODE_RDMA_WRITE */
    wqe[1] = big_endian(queue.qpn << 8 | 3);           /* segments of 16 bytes */
    wqe[2] = big_endian(8);                            /* MLX5_WQE_CTRL_CQ_UPDATE */
    wqe[3] = 0;
    wqe[4] = big_endian((uint32_t)(remote >> 32));
    wqe[5] = big_endian((uint32_t)remote);
    wqe[6] = big_endian(rkey);
    wqe[7] = 0;
    wqe[8] = big_endian(local.length);
    wqe[9] = big_endian(local.key);
    wqe[10] = big_endian((uint32_t)(local.address >> 32));
    wqe[11] = big_endian((uint32_t)local.address);
    /* Each thread fences what it wrote, the WQE and the message: the fence in ring orders the writes of its own thread alone. */
    __threadfence_system();
}

/* Posts the `count` requests that were built, and rings once for all. Called by one thread. */
__device__ inline void ring(send_queue &queue, uint32_t count)
{
    const uint32_t last = queue.posted + count - 1;
    queue.posted += count;
    if (queue.record) {
        /* The NIC must not read a record that covers a WQE before the WQE: the fences of build_write come first. */
        *(volatile uint32_t *)queue.record = big_endian(queue.posted & 0xffff);
        /* And it reads the record when the doorbell arrives: without this fence it may read the old one, and send nothing. */
        __threadfence_system();
    }
    const unsigned char *wqe = queue.ring + (size_t)(last & (queue.blocks - 1)) * 64;
    /* One store of eight bytes: two of four would be two doorbells. */
    *(volatile uint64_t *)queue.doorbell = *(const volatile uint64_t *)wqe;
}

/* Builds an RDMA WRITE and posts it: EAGAIN (ERROR_TIMEOUT) if the queue is full. Called by one thread. */
__device__ inline int post_write(send_queue &queue, const send_range &local, uint64_t remote, uint32_t rkey)
{
    if (!fits(queue, 1))
        return ERROR_TIMEOUT;
    build_write(queue, 0, local, remote, rkey);
    ring(queue, 1);
    return 0;
}

/*
 * Waits for the next CQE: 0, ERROR_TIMEOUT after `clocks` clocks of the multiprocessor, or ERROR_COMPLETION with the syndrome
 * (MLX5_CQE_SYNDROME_...) if `syndrome` is not NULL. Called by one thread.
 */
__device__ inline int poll(send_queue &queue, long long clocks, uint32_t *syndrome)
{
    const uint32_t slot = queue.polled & (queue.cqe_count - 1);
    const uint32_t owner = (queue.polled & queue.cqe_count) != 0;
    volatile uint32_t *cqe = (volatile uint32_t *)(queue.cqes + (size_t)slot * 64);
    const long long begun = clock64();
    uint32_t seen;
    for (;;) {
        /* Opcode and owner are the last byte, which the NIC writes last. 15 is no opcode: the slot was never written. */
        seen = cqe[15];
        if (seen >> 28 != 15 && (seen >> 24 & 1) == owner)
            break;
        if (clock64() - begun >= clocks)
            return ERROR_TIMEOUT;
    }
    /* Neither the rest of the CQE nor what it announces may be read before its owner. */
    __threadfence_system();
    if (seen >> 28 >= 13) {
        if (syndrome)
            *syndrome = cqe[13] >> 24;
        return ERROR_COMPLETION;
    }
    queue.polled++;
    if (queue.cqe_record)
        *(volatile uint32_t *)queue.cqe_record = big_endian(queue.polled & 0xffffff);
    return 0;
}

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
