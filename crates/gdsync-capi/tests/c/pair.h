/*
 * Two connected queue pairs with registered memory: on two NICs of a SIMULATED libibverbs (crate fake-verbs), or on one mlx5 NIC of
 * rdma-core on a fake kernel (crate fake-uverbs), if REMOTE_NIC is set to its name; or on the NIC ROCE_NIC, with its GID 1.
 */
#ifndef PAIR_H
#define PAIR_H

#include "check.h"

enum { BYTES = 65536, DEPTH = 16, SGES = 4, INLINE = 64 };

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    unsigned char *memory;
    struct gds_qp *qp;
    uint16_t lid;
    /* The objects of an mlx5 NIC stay if a stream may still ring a doorbell. */
    int may_stay;
};

static inline struct ibv_context *open_nic(const char *name)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    struct ibv_context *context = NULL;
    CHECK(list);
    for (int i = 0; i < count; ++i)
        if (!strcmp(ibv_get_device_name(list[i]), name))
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    CHECK(context);
    return context;
}

static inline const char *roce_nic(void)
{
    return getenv("ROCE_NIC");
}

static inline const char *near_nic(void)
{
    return roce_nic() ? roce_nic() : "mlx5_0";
}

static inline const char *remote_nic(void)
{
    const char *name = getenv("REMOTE_NIC");
    return roce_nic() ? roce_nic() : name ? name : "mlx5_1";
}

static inline int is_mlx5(void)
{
    return getenv("REMOTE_NIC") != NULL;
}

/* The location of the queues: QP_FLAGS, in hexadecimal. */
static inline int qp_flags(void)
{
    const char *flags = getenv("QP_FLAGS");
    return flags ? (int)strtol(flags, NULL, 16) : GDS_CREATE_QP_DEFAULT;
}

static inline gds_qp_init_attr_t attributes(void)
{
    gds_qp_init_attr_t attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = DEPTH;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = SGES;
    attr.cap.max_inline_data = INLINE;
    return attr;
}

/* On a NIC, with a queue pair in RESET. */
static inline struct side new_side(const char *NIC)
{
    struct side side;
    struct ibv_port_attr port;
    memset(&side, 0, sizeof side);
    side.context = open_nic(NIC);
    side.pd = ibv_alloc_pd(side.context);
    CHECK(side.pd);
    side.memory = aligned_alloc(4096, BYTES);
    memset(side.memory, 0, BYTES);
    side.mr = ibv_reg_mr(side.pd, side.memory, BYTES,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(side.mr);
    gds_qp_init_attr_t attr = attributes();
    side.qp = gds_create_qp(side.pd, side.context, &attr, 0, qp_flags());
    CHECK(side.qp);
    EQUALS(0, ibv_query_port(side.context, 1, &port));
    side.lid = port.lid;
    return side;
}

/* Frees everything. The queue pair may already be destroyed. */
static inline void end_side(struct side *side)
{
    if (side->qp)
        EQUALS(0, gds_destroy_qp(side->qp));
    EQUALS(0, ibv_dereg_mr(side->mr));
    int busy = ibv_dealloc_pd(side->pd);
    CHECK(!busy || (busy == EBUSY && side->may_stay));
    EQUALS(0, ibv_close_device(side->context));
    free(side->memory);
}

/* Connects by gds_modify_qp or, where there is a verbs queue pair, ibv_modify_qp. */
typedef int change(struct gds_qp *qp, struct ibv_qp_attr *attr, int mask);

static inline int by_verbs(struct gds_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return is_mlx5() && qp_flags() ? gds_modify_qp(qp, attr, mask) : ibv_modify_qp(qp->qp, attr, mask);
}

static inline void to_init(struct side *side, change *change)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    EQUALS(0, change(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static inline void to_rtr(struct side *side, const struct side *far, change *change)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = far->qp->qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.dlid = far->lid;
    attr.ah_attr.port_num = 1;
    if (roce_nic()) {
        attr.ah_attr.is_global = 1;
        attr.ah_attr.grh.sgid_index = 1;
        attr.ah_attr.grh.hop_limit = 64;
        EQUALS(0, ibv_query_gid(far->context, 1, 1, &attr.ah_attr.grh.dgid));
    }
    EQUALS(0, change(side->qp, &attr,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static inline void to_rts(struct side *side, change *change)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    EQUALS(0, change(side->qp, &attr,
                     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC));
}

static inline void join(struct side *near, struct side *far, change *change)
{
    to_init(near, change);
    to_init(far, change);
    to_rtr(near, far, change);
    to_rtr(far, near, change);
    to_rts(near, change);
    to_rts(far, change);
}

static inline struct ibv_sge sge_of(const struct side *side, size_t offset, uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)side->memory + offset, .length = length, .lkey = side->mr->lkey};
    return sge;
}

static inline gds_send_wr work(uint64_t id, enum ibv_wr_opcode opcode, struct ibv_sge *pieces, int count)
{
    gds_send_wr wr;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.sg_list = pieces;
    wr.num_sge = count;
    wr.send_flags = IBV_SEND_SIGNALED;
    return wr;
}

/* With a remote address. */
static inline gds_send_wr at(gds_send_wr wr, const struct side *far, size_t offset)
{
    wr.wr.rdma.remote_addr = (uintptr_t)far->memory + offset;
    wr.wr.rdma.rkey = far->mr->rkey;
    return wr;
}

static inline void post_receive(struct side *side, uint64_t id, size_t offset, uint32_t length)
{
    struct ibv_sge sge = sge_of(side, offset, length);
    struct ibv_recv_wr wr, *bad = NULL;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EQUALS(0, gds_post_recv(side->qp, &wr, &bad));
}

/* The next completion, within a minute. */
static inline struct ibv_wc next(struct gds_cq *cq)
{
    struct ibv_wc wc;
    struct timespec start_time, now;
    clock_gettime(CLOCK_MONOTONIC, &start_time);
    for (;;) {
        memset(&wc, 0xcc, sizeof wc);
        int count = gds_poll_cq(cq, 1, &wc);
        if (count == 1)
            return wc;
        EQUALS(0, count);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start_time.tv_sec > 60) {
            fprintf(stderr, "no completion after a minute\n");
            exit(1);
        }
    }
}

/* Polls a successful completion with this id and opcode. */
static inline struct ibv_wc poll_success(struct gds_cq *cq, uint64_t id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = next(cq);
    EQUALS(IBV_WC_SUCCESS, wc.status);
    EQUALS(id, wc.wr_id);
    EQUALS(opcode, wc.opcode);
    return wc;
}

static inline void none(struct gds_cq *cq)
{
    struct ibv_wc wc;
    EQUALS(0, gds_poll_cq(cq, 1, &wc));
}

#endif
