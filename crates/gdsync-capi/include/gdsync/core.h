/*
 * gdsync/core.h: queue pairs, descriptors and their execution. Include gdsync.h instead of this file.
 */
#ifndef GDSYNC_CORE_H
#define GDSYNC_CORE_H

#ifndef __GDSYNC_H__
#error "include gdsync.h, which includes this"
#endif

GDS_BEGIN_DECLS

/* Versions: major << 16 | minor. A library supports programs built for the same major version and an equal or lower minor version. */
#define GDS_API_MAJOR_VERSION 2
#define GDS_API_MINOR_VERSION 2
#define GDS_API_VERSION (((unsigned)GDS_API_MAJOR_VERSION << 16) | (unsigned)GDS_API_MINOR_VERSION)
#define GDS_API_VERSION_COMPATIBLE(v) \
    ((unsigned)(v) >> 16 == (unsigned)GDS_API_MAJOR_VERSION && ((unsigned)(v) & 0xffffU) >= (unsigned)GDS_API_MINOR_VERSION)

typedef enum gds_param {
    GDS_PARAM_VERSION, /* GDS_API_VERSION of the library */
    GDS_NUM_PARAMS     /* one more than the last */
} gds_param_t;

/* Writes the parameter to *value. */
int gds_query_param(gds_param_t param, int *value);

/*
 * Parts of a queue pair in GPU memory instead of host memory. On an mlx5 NIC they need DEVX (Linux 5.0) and a dma-buf of the memory (Linux
 * 6.1) or nvidia-peermem, and a mapping of the memory for the CPU, as gdrapi.h has. Without these GDS_CREATE_QP_WQ_ON_GPU fails with
 * EOPNOTSUPP, and the others log a warning and use host memory. The memory belongs to the current CUDA context: destroy the queue pair first.
 *
 * With any of these flags on an mlx5 NIC the queue pair is not a verbs object: gds_qp's `qp` and completion queues hold its numbers, gds_modify_qp
 * changes its state (RESET to INIT, to RTR, to RTS, and to ERROR; pkey_index 0), and ibv_modify_qp and ibv_query_qp fail.
 */
enum gds_create_qp_flags {
    GDS_CREATE_QP_DEFAULT = 0,
    GDS_CREATE_QP_WQ_ON_GPU = 1 << 0,      /* send and receive queue */
    GDS_CREATE_QP_TX_CQ_ON_GPU = 1 << 1,   /* completion queue of sends */
    GDS_CREATE_QP_RX_CQ_ON_GPU = 1 << 2,   /* completion queue of receives */
    GDS_CREATE_QP_WQ_DBREC_ON_GPU = 1 << 5 /* doorbell records */
};

#ifdef GDSYNC_EXP_H
typedef struct ibv_exp_qp_init_attr gds_qp_init_attr_t;
typedef struct ibv_exp_send_wr gds_send_wr;
#else
typedef struct ibv_qp_init_attr gds_qp_init_attr_t;
typedef struct ibv_send_wr gds_send_wr;
#endif

/* A completion queue of a queue pair. */
typedef struct gds_cq {
    struct ibv_cq *cq;    /* the verbs completion queue; must not be polled by the program */
    uint32_t curr_offset; /* index of the next completion for gds_prepare_wait_cq, from 0; written by the library */
} gds_cq_t;

/* A queue pair of gds_create_qp. */
typedef struct gds_qp {
    struct ibv_qp *qp; /* the verbs queue pair: for its number, and without gds_create_qp_flags for ibv_query_qp and ibv_modify_qp */
    struct gds_cq send_cq;
    struct gds_cq recv_cq;
    void *res_domain; /* always NULL; used by MOFED's experimental verbs */
    struct ibv_context *dev_context;
} gds_qp_t;

/*
 * Creates a queue pair in `pd` (IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), in state RESET, with two new completion queues of at least
 * max_send_wr and max_recv_wr CQEs. `context` is that of `pd`; srq must be NULL; send_cq and recv_cq are set. The queues are accessible to
 * the GPU of the current CUDA context, which should be `gpu_id`. Returns NULL with errno on error.
 *
 * The sends of datagrams (IBV_QPT_UD) are IBV_WR_SEND and IBV_WR_SEND_WITH_IMM, each with wr.ud.ah, remote_qpn and remote_qkey. On an mlx5
 * NIC the address handle is read when the request is prepared, and may be destroyed afterwards; with another device, or with
 * GDS_HCA=proxy, it must stay until the send has completed. A receive has 40 bytes before the message, which byte_len includes; they hold a GRH if IBV_WC_GRH is set. A
 * datagram without a receiver is lost, and its send succeeds.
 */
struct gds_qp *gds_create_qp(struct ibv_pd *pd, struct ibv_context *context, gds_qp_init_attr_t *qp_init_attr, int gpu_id, int flags);

/*
 * Destroys a queue pair and its completion queues, and flushes work in progress. Streams that wait for its completions continue, whatever
 * the result of the work, so destroy it when nothing is in progress. Returns 0 for NULL.
 */
int gds_destroy_qp(struct gds_qp *qp);

/*
 * As ibv_modify_qp, which programs may call directly if no part is in GPU memory. Work posted before is sent as soon as the state allows.
 * RESET: EOPNOTSUPP.
 */
int gds_modify_qp(gds_qp_t *qp, struct ibv_qp_attr *attr, int attr_mask);

/* Prepares sends and rings their doorbell by the CPU. As ibv_post_send, but sends the whole list or nothing. */
int gds_post_send(struct gds_qp *qp, gds_send_wr *wr, gds_send_wr **bad_wr);

/* As ibv_post_recv, which must not be called on this queue pair. */
int gds_post_recv(struct gds_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/*
 * Polls completions that no stream waits for, in order. Replaces ibv_poll_cq. Returns the number of completions, or a negated errno. Only
 * this frees space in the queues: without polling, posting fails with ENOMEM.
 */
int gds_poll_cq(struct gds_cq *cq, int num_entries, struct ibv_wc *wc);

/* Prepares sends and posts their doorbell to a stream. As gds_prepare_send and gds_stream_post_send. */
int gds_stream_queue_send(CUstream stream, struct gds_qp *qp, gds_send_wr *p_ewr, gds_send_wr **bad_ewr);

/* Posts a wait for the next completion to a stream. As gds_prepare_wait_cq and gds_stream_post_wait_cq. `flags` is 0. */
int gds_stream_wait_cq(CUstream stream, struct gds_cq *cq, int flags);

enum {
    GDS_SEND_INFO_MAX_OPS = 32,
    GDS_WAIT_INFO_MAX_OPS = 32
};

/* Prepared sends. Can be copied; the library detects modified requests. */
typedef struct gds_send_request {
    uint64_t opaque[232];
} gds_send_request_t;

/*
 * Writes sends into the queue: opcodes SEND, SEND_WITH_IMM, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ, ATOMIC_CMP_AND_SWP and
 * ATOMIC_FETCH_AND_ADD, flags FENCE, SIGNALED, SOLICITED and INLINE. They are sent when the request is posted, or a later one of the
 * queue pair. ENOMEM if the queue is full: poll completions, and try again. Writes the whole list or nothing; on error *bad_ewr is the
 * failed work request.
 */
int gds_prepare_send(struct gds_qp *qp, gds_send_wr *p_ewr, gds_send_wr **bad_ewr, gds_send_request_t *request);

/* Posts the doorbells of prepared sends to a stream: each once, in the order of preparation. */
int gds_stream_post_send(CUstream stream, gds_send_request_t *request);
int gds_stream_post_send_all(CUstream stream, int count, gds_send_request_t *request);

/* A wait for a completion. Can be copied. */
typedef struct gds_wait_request {
    uint64_t opaque[232];
} gds_wait_request_t;

/*
 * Prepares the wait for completion cq->curr_offset, and increments that. gds_poll_cq does not return that completion before a stream has
 * waited for it. `flags` is 0. ENOMEM if every CQE has an open wait.
 */
int gds_prepare_wait_cq(struct gds_cq *cq, gds_wait_request_t *request, int flags);

/* Appends the write of the word at `dw`, a GPU address, to a wait that is not posted. ENOMEM for more than 30. */
int gds_append_wait_cq(gds_wait_request_t *request, uint32_t *dw, uint32_t val);

/* Posts waits to a stream, each once. An error completion ends a wait too; gds_poll_cq returns it. */
int gds_stream_post_wait_cq(CUstream stream, gds_wait_request_t *request);
int gds_stream_post_wait_cq_all(CUstream stream, int count, gds_wait_request_t *request);

/* Abandons a wait that is not posted: the CPU may poll that completion. `flags` is 0. */
int gds_post_wait_cq(struct gds_cq *cq, gds_wait_request_t *request, int flags);

/* Type of a word's memory: `flags` contains exactly one of the first three. */
typedef enum gds_memory_type {
    /* The pointer is a GPU address: cuMemAlloc, cudaMalloc, and pinned host memory of CUDA (cudaMallocHost). */
    GDS_MEMORY_GPU = 1,
    /*
     * Memory of the process (malloc). The pages of a word are registered with CUDA when it is first posted, until
     * gds_free_mapped_memory frees the memory or its CUDA context ends: do not return them to the system before.
     */
    GDS_MEMORY_HOST = 2,
    /* Registers of another device, mapped into the process. */
    GDS_MEMORY_IO = 4,
    GDS_MEMORY_MASK = 0x7
} gds_memory_type_t;

/* Flags of a wait, in addition to the memory type. */
typedef enum gds_wait_flags {
    /* Earlier PCIe writes of other devices to GPU memory are visible to the stream's later work. */
    GDS_WAIT_POST_FLUSH_REMOTE = 1 << 3,
    GDS_WAIT_POST_FLUSH = GDS_WAIT_POST_FLUSH_REMOTE
} gds_wait_flags_t;

/* Flags of a word write. */
typedef enum gds_write_flags {
    /* Earlier writes are visible to the whole system before this one. */
    GDS_WRITE_PRE_BARRIER_SYS = 1 << 4,
    GDS_WRITE_PRE_BARRIER = GDS_WRITE_PRE_BARRIER_SYS
} gds_write_flags_t;

/* Flags of a memory write. */
typedef enum gds_write_memory_flags {
    /* This write is visible to the whole system before later ones. */
    GDS_WRITE_MEMORY_POST_BARRIER_SYS = 1 << 4,
    /* Earlier writes are visible to the whole system before this one. */
    GDS_WRITE_MEMORY_PRE_BARRIER_SYS = 1 << 5
} gds_write_memory_flags_t;

/* Kinds of memory barriers. No function uses them; kept for source compatibility. */
typedef enum gds_membar_flags {
    GDS_MEMBAR_FLUSH_REMOTE = 1 << 4,
    GDS_MEMBAR_DEFAULT = 1 << 5,
    GDS_MEMBAR_SYS = 1 << 6,
    GDS_MEMBAR_MLX5 = 1 << 7
} gds_membar_flags_t;

/* Condition of a wait. */
typedef enum gds_wait_cond_flag {
    GDS_WAIT_COND_GEQ = 0, /* (int32_t)(word - value) >= 0: cyclic */
    GDS_WAIT_COND_EQ,      /* word == value */
    GDS_WAIT_COND_AND,     /* (word & value) != 0 */
    GDS_WAIT_COND_NOR      /* ~(word | value) != 0; Volta and later */
} gds_wait_cond_flag_t;

/* A wait for a 32-bit word. */
typedef struct gds_wait_value32 {
    uint32_t *ptr; /* aligned to 4 bytes */
    uint32_t value;
    gds_wait_cond_flag_t cond_flags;
    int flags; /* gds_memory_type_t | gds_wait_flags_t */
} gds_wait_value32_t;

int gds_prepare_wait_value32(gds_wait_value32_t *desc, uint32_t *ptr, uint32_t value, gds_wait_cond_flag_t cond_flags, int flags);

/* The write of a 32-bit word. */
typedef struct gds_write_value32 {
    uint32_t *ptr; /* aligned to 4 bytes */
    uint32_t value;
    int flags; /* gds_memory_type_t | gds_write_flags_t */
} gds_write_value32_t;

int gds_prepare_write_value32(gds_write_value32_t *desc, uint32_t *ptr, uint32_t value, int flags);

/*
 * The write of 4 to 1024 bytes, in words of 4 bytes, each in one store. `src` is read while the descriptor is posted, and may be reused
 * afterwards.
 */
typedef struct gds_write_memory {
    uint8_t *dest; /* aligned to 4 bytes */
    const uint8_t *src;
    size_t count; /* bytes */
    int flags;    /* gds_memory_type_t | gds_write_memory_flags_t */
} gds_write_memory_t;

int gds_prepare_write_memory(gds_write_memory_t *desc, uint8_t *dest, const uint8_t *src, size_t count, int flags);

/* The valid member of a descriptor's union. */
typedef enum gds_tag {
    GDS_TAG_SEND,
    GDS_TAG_WAIT,
    GDS_TAG_WAIT_VALUE32,
    GDS_TAG_WRITE_VALUE32,
    GDS_TAG_WRITE_MEMORY
} gds_tag_t;

typedef struct gds_descriptor {
    gds_tag_t tag;
    union {
        gds_send_request_t *send;
        gds_wait_request_t *wait;
        gds_wait_value32_t wait32;
        gds_write_value32_t write32;
        gds_write_memory_t writemem;
    };
} gds_descriptor_t;

/*
 * Posts descriptors to a stream of the current context's GPU, which executes them in order. `flags` is 0. An invalid list is rejected as a
 * whole, and its requests can be posted again. More than 255 operations go to CUDA in several batches; if CUDA rejects a later one, the
 * earlier ones stay posted. The words must stay valid until the stream has executed the descriptors.
 */
int gds_stream_post_descriptors(CUstream stream, size_t n_descs, gds_descriptor_t *descs, int flags);

/*
 * Executes descriptors on the CPU, in order, before it returns. `flags` is 0. With GDS_MEMORY_GPU the CPU can access memory of
 * gds_alloc_mapped_memory and pinned host memory; for other memory it returns EFAULT and executes nothing.
 *
 * The timeout of a wait is ten minutes, or GDS_CPU_WAIT_TIMEOUT_MS milliseconds (environment variable; libgdsync waits without limit).
 * After it the call returns ETIMEDOUT: earlier descriptors are done, and requests of this and later ones can be posted again. To end a wait
 * earlier, write its word; for the wait of a request, destroy its queue pair: ECANCELED.
 */
int gds_post_descriptors(size_t n_descs, gds_descriptor_t *descs, int flags);

GDS_END_DECLS

#endif /* GDSYNC_CORE_H */
