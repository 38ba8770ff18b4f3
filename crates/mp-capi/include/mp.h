/*
 * libmp 2.0: messages between the ranks of an MPI program, by the CPU, by CUDA streams and by kernels.
 *
 * Functions return MP_SUCCESS, or MP_FAILURE or a positive errno; a message on standard error says why. Pointers to handles
 * (mp_reg_t, mp_request_t, mp_window_t, mp_desc_queue_t) are written on success only. Handles are looked up: an unknown or
 * freed one is EINVAL.
 *
 * A rank posts a receive before its peer sends. A request is freed by mp_wait or mp_wait_all, well or not.
 */
#ifndef MP_H
#define MP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <cuda.h>
#include <cuda_runtime.h>
#include <mpi.h>

#define MP_SUCCESS 0
#define MP_FAILURE 1

#define MP_API_MAJOR_VERSION 2
#define MP_API_MINOR_VERSION 0
#define MP_API_VERSION ((MP_API_MAJOR_VERSION << 16) | MP_API_MINOR_VERSION)
/* True if the version `v` that mp_query_param returned serves a program built with this header. */
#define MP_API_VERSION_COMPATIBLE(v) \
    (((v) >> 16 & 0xffff) == MP_API_MAJOR_VERSION && (int)((v) & 0xffffU) >= MP_API_MINOR_VERSION)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mp_reg *mp_reg_t;
typedef struct mp_request *mp_request_t;
typedef struct mp_window *mp_window_t;
typedef struct mp_desc_queue *mp_desc_queue_t;

typedef enum mp_param { MP_PARAM_VERSION, MP_NUM_PARAMS } mp_param_t;

/* Writes MP_API_VERSION of the library. EINVAL for NULL and unknown parameters. */
int mp_query_param(mp_param_t param, int *value);

/* Where queues lie. One of these numbers: they are not bits. */
enum mp_init_flags {
    MP_INIT_DEFAULT = 0,
    MP_INIT_WQ_ON_GPU = 1,
    MP_INIT_RX_CQ_ON_GPU = 2,
    MP_INIT_TX_CQ_ON_GPU = 3,
    MP_INIT_DBREC_ON_GPU = 4
};

/*
 * Connects to `count` peers, which name this rank as their peer. Every rank of the communicator calls it; MPI only carries
 * addresses. The GPU is that of the current CUDA context, else `gpu_id`. EALREADY if it was called before.
 */
int mp_init(MPI_Comm comm, int *peers, int count, int flags, int gpu_id);

/* Waits for all ranks, then ends all connections. Open requests end, and waiting streams are released; a message counts them. */
void mp_finalize(void);

/*
 * Registers host or GPU memory. GPU memory that the NIC cannot access is an error, or goes through host memory if MP_STAGED=1.
 * mp_deregister ends the registration at once: requests in progress that use it fail.
 */
int mp_register(void *addr, size_t length, mp_reg_t *reg);
int mp_deregister(mp_reg_t *reg);

/* By the CPU: receives and sends of a registered buffer, or of up to 30 blocks of one registration. */
int mp_irecv(void *buf, int size, int peer, mp_reg_t *reg, mp_request_t *req);
int mp_isend(void *buf, int size, int peer, mp_reg_t *reg, mp_request_t *req);
int mp_irecvv(struct iovec *v, int nblocks, int peer, mp_reg_t *reg, mp_request_t *req);
int mp_isendv(struct iovec *v, int nblocks, int peer, mp_reg_t *reg, mp_request_t *req);

/*
 * Waits for requests, also for the streams that wait for them, and frees them. All are freed, whatever the result. EINVAL for
 * requests that are not posted, that were freed, and for puts with MP_PUT_NOWAIT.
 */
int mp_wait(mp_request_t *req);
int mp_wait_all(uint32_t count, mp_request_t *req);
/* Polls. Returns the number of requests that have ended; they are not freed. */
int mp_progress_all(uint32_t count, mp_request_t *req);

/* When a stream reaches it: mp_send_* also makes the stream wait for the completion. */
int mp_send_on_stream(void *buf, int size, int peer, mp_reg_t *reg, mp_request_t *req, cudaStream_t stream);
int mp_isend_on_stream(void *buf, int size, int peer, mp_reg_t *reg, mp_request_t *req, cudaStream_t stream);
int mp_isendv_on_stream(struct iovec *v, int nblocks, int peer, mp_reg_t *reg, mp_request_t *req, cudaStream_t stream);

/* Makes a stream wait for requests. Each can be waited for once; mp_wait frees it. */
int mp_wait_on_stream(mp_request_t *req, cudaStream_t stream);
int mp_wait_all_on_stream(uint32_t count, mp_request_t *req, cudaStream_t stream);

/* In two steps. The prepared requests of a peer are posted in the order of preparation. */
int mp_send_prepare(void *buf, int size, int peer, mp_reg_t *reg, mp_request_t *req);
int mp_sendv_prepare(struct iovec *v, int nblocks, int peer, mp_reg_t *reg, mp_request_t *req);
int mp_send_post_on_stream(mp_request_t *req, cudaStream_t stream);
int mp_isend_post_on_stream(mp_request_t *req, cudaStream_t stream);
int mp_send_post_all_on_stream(uint32_t count, mp_request_t *req, cudaStream_t stream);
int mp_isend_post_all_on_stream(uint32_t count, mp_request_t *req, cudaStream_t stream);

/* Every rank's memory for puts and gets. Every rank of the communicator calls mp_window_create; destroy after a barrier. */
int mp_window_create(void *addr, size_t size, mp_window_t *window);
int mp_window_destroy(mp_window_t *window);

enum mp_put_flags {
    MP_PUT_INLINE = 1 << 0, /* the data is copied at once: up to 256 bytes */
    MP_PUT_NOWAIT = 1 << 1  /* no completion: the request is freed when it is posted */
};

int mp_iput(void *src, int size, mp_reg_t *reg, int peer, size_t displ, mp_window_t *window, mp_request_t *req, int flags);
int mp_iget(void *dst, int size, mp_reg_t *reg, int peer, size_t displ, mp_window_t *window, mp_request_t *req);
int mp_iput_on_stream(void *src, int size, mp_reg_t *reg, int peer, size_t displ, mp_window_t *window, mp_request_t *req,
                      int flags, cudaStream_t stream);
int mp_put_prepare(void *src, int size, mp_reg_t *reg, int peer, size_t displ, mp_window_t *window, mp_request_t *req,
                   int flags);
int mp_iput_post_on_stream(mp_request_t *req, cudaStream_t stream);
int mp_iput_post_all_on_stream(uint32_t count, mp_request_t *req, cudaStream_t stream);

/* libmp exports these two without a declaration. A receive needs no stream: it is posted at once. */
int mp_iget_on_stream(void *dst, int size, mp_reg_t *reg, int peer, size_t displ, mp_window_t *window, mp_request_t *req,
                      cudaStream_t stream);
int mp_irecv_on_stream(void *buf, int size, int peer, mp_reg_t *reg, mp_request_t *req, cudaStream_t stream);

/*
 * Waits until a word of host memory is `>= value` as a cyclic counter (the signed difference is not negative), `== value`, or
 * has a bit of `value`. On the CPU and on streams alike; libmp 2.0 compares EQ with > on the CPU, and EQ and AND as GEQ on streams.
 */
enum mp_wait_flags { MP_WAIT_GEQ = 0, MP_WAIT_EQ = 1, MP_WAIT_AND = 2 };

int mp_wait32(uint32_t *ptr, uint32_t value, int flags);
int mp_wait32_on_stream(uint32_t *ptr, uint32_t value, int flags, cudaStream_t stream);

static inline int mp_wait_dword_geq_on_stream(uint32_t *ptr, uint32_t value, cudaStream_t stream)
{
    return mp_wait32_on_stream(ptr, value, MP_WAIT_GEQ, stream);
}

static inline int mp_wait_dword_eq_on_stream(uint32_t *ptr, uint32_t value, cudaStream_t stream)
{
    return mp_wait32_on_stream(ptr, value, MP_WAIT_EQ, stream);
}

/* Descriptors that go to a stream in one batch, in order. Words are in host memory. `flags` of the last function are 0. */
int mp_desc_queue_alloc(mp_desc_queue_t *dq);
int mp_desc_queue_free(mp_desc_queue_t *dq);
int mp_desc_queue_add_send(mp_desc_queue_t *dq, mp_request_t *req);
int mp_desc_queue_add_wait_send(mp_desc_queue_t *dq, mp_request_t *req);
int mp_desc_queue_add_wait_recv(mp_desc_queue_t *dq, mp_request_t *req);
int mp_desc_queue_add_wait_value32(mp_desc_queue_t *dq, uint32_t *ptr, uint32_t value, int flags);
int mp_desc_queue_add_write_value32(mp_desc_queue_t *dq, uint32_t *ptr, uint32_t value);
int mp_desc_queue_post_on_stream(cudaStream_t stream, mp_desc_queue_t *dq, int flags);

#ifdef __cplusplus
}
#endif

#endif /* MP_H */
