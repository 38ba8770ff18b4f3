/*
 * gdsync/core.h: queue pairs, descriptors, and the two ways to have them done. Part of gdsync.h, which is the one to include.
 */
#ifndef GDSYNC_CORE_H
#define GDSYNC_CORE_H

#ifndef __GDSYNC_H__
#error "include gdsync.h, which includes this"
#endif

GDS_BEGIN_DECLS

/* Versions: major << 16 | minor. A library serves a program that was built for the same major and no later minor version. */
#define GDS_API_MAJOR_VERSION 2
#define GDS_API_MINOR_VERSION 2
#define GDS_API_VERSION (((unsigned)GDS_API_MAJOR_VERSION << 16) | (unsigned)GDS_API_MINOR_VERSION)
#define GDS_API_VERSION_COMPATIBLE(v) \
    ((unsigned)(v) >> 16 == (unsigned)GDS_API_MAJOR_VERSION && ((unsigned)(v) & 0xffffU) >= (unsigned)GDS_API_MINOR_VERSION)

typedef enum gds_param {
    GDS_PARAM_VERSION, /* GDS_API_VERSION of the library */
    GDS_NUM_PARAMS     /* one more than the last */
} gds_param_t;

/* Writes what is asked for to *value. */
int gds_query_param(gds_param_t param, int *value);

/* Where the queues of a queue pair lie. All but the first: EOPNOTSUPP. */
enum gds_create_qp_flags {
    GDS_CREATE_QP_DEFAULT = 0,
    GDS_CREATE_QP_WQ_ON_GPU = 1 << 0,
    GDS_CREATE_QP_TX_CQ_ON_GPU = 1 << 1,
    GDS_CREATE_QP_RX_CQ_ON_GPU = 1 << 2,
    GDS_CREATE_QP_WQ_DBREC_ON_GPU = 1 << 5
};

typedef struct ibv_qp_init_attr gds_qp_init_attr_t;
typedef struct ibv_send_wr gds_send_wr;

/* A completion queue of a queue pair. */
typedef struct gds_cq {
    struct ibv_cq *cq;    /* behind it; the library's to poll, not the program's */
    uint32_t curr_offset; /* which completion gds_prepare_wait_cq takes next, counted from 0; the library writes it */
} gds_cq_t;

/* A queue pair, as gds_create_qp gives it. */
typedef struct gds_qp {
    struct ibv_qp *qp; /* the verbs queue pair: for its number and ibv_query_qp */
    struct gds_cq send_cq;
    struct gds_cq recv_cq;
    void *res_domain; /* NULL; MOFED's verbs had one */
    struct ibv_context *dev_context;
} gds_qp_t;

/*
 * Makes a queue pair of `pd` (IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), in state RESET, with two completion queues of its own of max_send_wr and max_recv_wr
 * entries at least. `context` is pd's; srq is NULL; send_cq and recv_cq are filled in. The queues are made for the GPU of the current
 * CUDA context, which is to be `gpu_id`. NULL with errno where it is refused.
 *
 * Datagrams (IBV_QPT_UD) are sent by mlx5 NICs alone; with another device, or with GDS_HCA=proxy: EOPNOTSUPP. Sends are IBV_WR_SEND and
 * IBV_WR_SEND_WITH_IMM, each with wr.ud.ah, remote_qpn and remote_qkey; the handle is read when the request is prepared and may be
 * destroyed after that. A receive has 40 bytes before the message, which byte_len counts; IBV_WC_GRH says that a global route header is in
 * them. What nobody takes is lost, and its send completes well.
 */
struct gds_qp *gds_create_qp(struct ibv_pd *pd, struct ibv_context *context, gds_qp_init_attr_t *qp_init_attr, int gpu_id, int flags);

/*
 * Destroys it, its completion queues and what is in progress. Streams that wait for its completions are let go on, whatever became of the
 * work: destroy it when nothing is in progress. NULL is 0.
 */
int gds_destroy_qp(struct gds_qp *qp);

/*
 * ibv_modify_qp of its verbs queue pair, which may be called instead. What was posted before is sent as soon as the state allows. RESET:
 * EOPNOTSUPP.
 */
int gds_modify_qp(gds_qp_t *qp, struct ibv_qp_attr *attr, int attr_mask);

/* Prepares sends and rings for them at once, by the CPU. As ibv_post_send; all of the list is sent, or nothing. */
int gds_post_send(struct gds_qp *qp, gds_send_wr *wr, gds_send_wr **bad_wr);

/* As ibv_post_recv, which must not be called for this queue pair. */
int gds_post_recv(struct gds_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/*
 * Takes completions that no stream waits for, in order. In place of ibv_poll_cq. Returns how many, or an errno with a minus. Queues are
 * freed by this alone: a program that never polls meets ENOMEM.
 */
int gds_poll_cq(struct gds_cq *cq, int num_entries, struct ibv_wc *wc);

/* Has a stream send, in its order. As gds_prepare_send and gds_stream_post_send. */
int gds_stream_queue_send(CUstream stream, struct gds_qp *qp, gds_send_wr *p_ewr, gds_send_wr **bad_ewr);

/* Has a stream wait for the next completion. As gds_prepare_wait_cq and gds_stream_post_wait_cq. `flags` is 0. */
int gds_stream_wait_cq(CUstream stream, struct gds_cq *cq, int flags);

enum {
    GDS_SEND_INFO_MAX_OPS = 32,
    GDS_WAIT_INFO_MAX_OPS = 32
};

/* Sends that were prepared. It may be copied; what is in it is the library's, and is found out where it was changed. */
typedef struct gds_send_request {
    uint64_t opaque[232];
} gds_send_request_t;

/*
 * Writes sends into the queue: opcodes SEND, SEND_WITH_IMM, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ, ATOMIC_CMP_AND_SWP and
 * ATOMIC_FETCH_AND_ADD, flags FENCE, SIGNALED, SOLICITED and INLINE. They are sent when the request is posted, or a later one of the
 * queue pair. ENOMEM where the queue is full: poll completions, and try again. All of the list is written, or nothing, and *bad_wr tells
 * which it was.
 */
int gds_prepare_send(struct gds_qp *qp, gds_send_wr *p_ewr, gds_send_wr **bad_ewr, gds_send_request_t *request);

/* Has a stream send what was prepared: once, and in the order in which it was prepared. */
int gds_stream_post_send(CUstream stream, gds_send_request_t *request);
int gds_stream_post_send_all(CUstream stream, int count, gds_send_request_t *request);

/* A wait for a completion. As a request to send, it may be copied. */
typedef struct gds_wait_request {
    uint64_t opaque[232];
} gds_wait_request_t;

/*
 * Takes the wait for completion cq->curr_offset, which is one more afterwards. gds_poll_cq does not give that completion before a stream has
 * seen it. `flags` is 0. ENOMEM for more open waits than the queue has entries.
 */
int gds_prepare_wait_cq(struct gds_cq *cq, gds_wait_request_t *request, int flags);

/* Has the word at `dw`, an address of the GPU, written after the wait. Before it is posted; ENOMEM for more than 30. */
int gds_append_wait_cq(gds_wait_request_t *request, uint32_t *dw, uint32_t val);

/* Has a stream wait, once. An error completion ends a wait as any other does; gds_poll_cq tells it. */
int gds_stream_post_wait_cq(CUstream stream, gds_wait_request_t *request);
int gds_stream_post_wait_cq_all(CUstream stream, int count, gds_wait_request_t *request);

/* Gives up a wait that was not posted: the CPU may poll that completion. `flags` is 0. */
int gds_post_wait_cq(struct gds_cq *cq, gds_wait_request_t *request, int flags);

/* Whose memory a word is in: exactly one of the first three goes into `flags`. */
typedef enum gds_memory_type {
    /* The pointer is the GPU's own address: cuMemAlloc, cudaMalloc, and pinned host memory that CUDA gave (cudaMallocHost). */
    GDS_MEMORY_GPU = 1,
    /*
     * Memory of the process (malloc). The pages of a word are registered with CUDA when it is first posted, and stay so until
     * the memory is freed by gds_free_mapped_memory or its CUDA context ends: do not give them back to the system before.
     */
    GDS_MEMORY_HOST = 2,
    /* Registers of another device, mapped into the process. */
    GDS_MEMORY_IO = 4,
    GDS_MEMORY_MASK = 0x7
} gds_memory_type_t;

/* With a wait, besides the memory type. */
typedef enum gds_wait_flags {
    /* What third parties wrote to the GPU's memory over PCIe before is visible to the stream's later work. */
    GDS_WAIT_POST_FLUSH_REMOTE = 1 << 3,
    GDS_WAIT_POST_FLUSH = GDS_WAIT_POST_FLUSH_REMOTE
} gds_wait_flags_t;

/* With the write of a word. */
typedef enum gds_write_flags {
    /* What was written before is visible to the whole system first. */
    GDS_WRITE_PRE_BARRIER_SYS = 1 << 4,
    GDS_WRITE_PRE_BARRIER = GDS_WRITE_PRE_BARRIER_SYS
} gds_write_flags_t;

/* With the write of memory. */
typedef enum gds_write_memory_flags {
    /* What was written is visible to the whole system before what comes next is written. */
    GDS_WRITE_MEMORY_POST_BARRIER_SYS = 1 << 4,
    /* What was written before is visible to the whole system first. */
    GDS_WRITE_MEMORY_PRE_BARRIER_SYS = 1 << 5
} gds_write_memory_flags_t;

/* Sorts of memory barriers. No function takes them; programs know the names. */
typedef enum gds_membar_flags {
    GDS_MEMBAR_FLUSH_REMOTE = 1 << 4,
    GDS_MEMBAR_DEFAULT = 1 << 5,
    GDS_MEMBAR_SYS = 1 << 6,
    GDS_MEMBAR_MLX5 = 1 << 7
} gds_membar_flags_t;

/* What a wait waits for, of the word it sees and its value. */
typedef enum gds_wait_cond_flag {
    GDS_WAIT_COND_GEQ = 0, /* (int32_t)(word - value) >= 0: cyclic */
    GDS_WAIT_COND_EQ,      /* word == value */
    GDS_WAIT_COND_AND,     /* (word & value) != 0 */
    GDS_WAIT_COND_NOR      /* ~(word | value) != 0; Volta and later */
} gds_wait_cond_flag_t;

/* A wait for a word of 32 bits. */
typedef struct gds_wait_value32 {
    uint32_t *ptr; /* at a multiple of 4 */
    uint32_t value;
    gds_wait_cond_flag_t cond_flags;
    int flags; /* gds_memory_type_t | gds_wait_flags_t */
} gds_wait_value32_t;

int gds_prepare_wait_value32(gds_wait_value32_t *desc, uint32_t *ptr, uint32_t value, gds_wait_cond_flag_t cond_flags, int flags);

/* The write of a word of 32 bits. */
typedef struct gds_write_value32 {
    uint32_t *ptr; /* at a multiple of 4 */
    uint32_t value;
    int flags; /* gds_memory_type_t | gds_write_flags_t */
} gds_write_value32_t;

int gds_prepare_write_value32(gds_write_value32_t *desc, uint32_t *ptr, uint32_t value, int flags);

/*
 * The write of 4 to 1024 bytes, in words of 4, each of which is written at once. They are read from `src` while the descriptor
 * is posted; afterwards `src` is the program's again.
 */
typedef struct gds_write_memory {
    uint8_t *dest; /* at a multiple of 4 */
    const uint8_t *src;
    size_t count; /* bytes */
    int flags;    /* gds_memory_type_t | gds_write_memory_flags_t */
} gds_write_memory_t;

int gds_prepare_write_memory(gds_write_memory_t *desc, uint8_t *dest, const uint8_t *src, size_t count, int flags);

/* Which member of a descriptor's union is meant. */
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
 * Puts descriptors into a stream of the current context's GPU, which does them in order. `flags` is 0. All are looked at first:
 * where one is refused, none is put in, and its requests may be posted again. More than 255 operations go to CUDA in several batches; should it refuse a later one,
 * those before it are in the stream. The words stay memory until the stream has done them.
 */
int gds_stream_post_descriptors(CUstream stream, size_t n_descs, gds_descriptor_t *descs, int flags);

/*
 * Has the CPU do descriptors, in order, before it returns. `flags` is 0. Of GPU memory the CPU reaches what gds_alloc_mapped_memory
 * gave, and pinned host memory; other is EFAULT, and nothing is done.
 *
 * A wait lasts ten minutes at most, or as many milliseconds as the environment variable GDS_CPU_WAIT_TIMEOUT_MS says (libgdsync waits for
 * ever). Then the call ends with ETIMEDOUT: the descriptors before that wait are done, and the requests of it and of those after it may be
 * posted again. To end a wait earlier, write its word; for the wait of a request, destroy its queue pair: ECANCELED.
 */
int gds_post_descriptors(size_t n_descs, gds_descriptor_t *descs, int flags);

GDS_END_DECLS

#endif /* GDSYNC_CORE_H */
