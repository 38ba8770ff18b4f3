/*
 * A program for libgdsync's releases, with the types of MOFED's experimental verbs (gdsync/compat). It uses the interface as libgdsync's own
 * programs (gds_kernel_latency, gds_kernel_loopback_latency) and libmp do: verbs' functions on the verbs objects of a queue pair, batches of
 * datagrams and of messages by streams, descriptors and the CPU, one-sided operations, and requests prepared ahead.
 */
#include "check.h"

#include <stddef.h>

#include <infiniband/verbs_exp.h>

/* What the library reads lies as in rdma-core's types. */
#define SAME(new, old) \
    _Static_assert(offsetof(struct ibv_exp_send_wr, new) == offsetof(struct ibv_send_wr, old), #new)
SAME(wr_id, wr_id);
SAME(next, next);
SAME(sg_list, sg_list);
SAME(num_sge, num_sge);
SAME(exp_opcode, opcode);
SAME(exp_send_flags, send_flags);
SAME(ex.imm_data, imm_data);
SAME(wr.rdma.rkey, wr.rdma.rkey);
SAME(wr.atomic.rkey, wr.atomic.rkey);
SAME(wr.ud.remote_qkey, wr.ud.remote_qkey);
_Static_assert(offsetof(struct ibv_exp_send_wr, comp_mask) >= sizeof(struct ibv_send_wr), "comp_mask");
#undef SAME
#define SAME(name) \
    _Static_assert(offsetof(struct ibv_exp_qp_init_attr, name) == offsetof(struct ibv_qp_init_attr, name), #name)
SAME(qp_context);
SAME(recv_cq);
SAME(srq);
SAME(cap.max_inline_data);
SAME(qp_type);
SAME(sq_sig_all);
_Static_assert(sizeof(struct ibv_exp_qp_init_attr) >= sizeof(struct ibv_qp_init_attr), "size");

enum { BATCH = 6, BATCHES = 3, DEPTH = 2 * BATCH * BATCHES, KEY = 0x11111111, ROUTE = 40, BYTES = 4096, INLINE = 64 };
enum { RECV_ID = 1, SEND_ID = 2 };

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_ah *ah;
    struct gds_qp *gds_qp;
    struct ibv_qp *qp;
    struct ibv_cq *sent, *received;
    uint16_t lid;
    /* Receives at BYTES, sends from 0. */
    char memory[2 * BYTES];
};

static int qp_flags(void)
{
    const char *flags = getenv("QP_FLAGS");
    return flags ? (int)strtol(flags, NULL, 16) : GDS_CREATE_QP_DEFAULT;
}

static void open_side(struct side *side, struct ibv_device *device, enum ibv_qp_type type)
{
    memset(side, 0, sizeof *side);
    side->context = ibv_open_device(device);
    CHECK(side->context);
    side->pd = ibv_alloc_pd(side->context);
    side->mr = ibv_reg_mr(side->pd, side->memory, sizeof side->memory,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(side->mr);
    gds_qp_init_attr_t attr = {
        .send_cq = 0,
        .recv_cq = 0,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = INLINE},
        .qp_type = type,
        .comp_mask = 7,
    };
    side->gds_qp = gds_create_qp(side->pd, side->context, &attr, 0, qp_flags());
    CHECK(side->gds_qp);
    EQUALS(7, attr.comp_mask);
    side->qp = side->gds_qp->qp;
    side->sent = side->qp->send_cq;
    side->received = side->qp->recv_cq;
    CHECK(side->sent == side->gds_qp->send_cq.cq && side->received == side->gds_qp->recv_cq.cq);
    struct ibv_port_attr port;
    EQUALS(0, ibv_query_port(side->context, 1, &port));
    side->lid = port.lid;
}

static void close_side(struct side *side)
{
    EQUALS(0, gds_destroy_qp(side->gds_qp));
    if (side->ah)
        EQUALS(0, ibv_destroy_ah(side->ah));
    EQUALS(0, ibv_dereg_mr(side->mr));
    const int busy = ibv_dealloc_pd(side->pd);
    CHECK(!busy || busy == EBUSY);
    EQUALS(0, ibv_close_device(side->context));
}

static void modify(struct side *side, struct ibv_qp_attr attr, int mask)
{
    EQUALS(0, ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | mask));
}

static void to_init(struct side *side, int mask)
{
    modify(side,
           (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qkey = KEY,
                                .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
           IBV_QP_PKEY_INDEX | IBV_QP_PORT | mask);
}

static void connect_to(struct side *side, const struct side *far)
{
    to_init(side, IBV_QP_ACCESS_FLAGS);
    modify(side,
           (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = far->qp->qp_num,
                                .max_dest_rd_atomic = 1,
                                .min_rnr_timer = 12,
                                .ah_attr = {.dlid = far->lid, .port_num = 1}},
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(side, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1},
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* A datagram queue pair in RTS, with an address handle of its own port. */
static void ready(struct side *side)
{
    to_init(side, IBV_QP_QKEY);
    modify(side, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, 0);
    modify(side, (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 7}, IBV_QP_SQ_PSN);
    struct ibv_ah_attr to = {.is_global = 0, .dlid = side->lid, .port_num = 1};
    side->ah = ibv_create_ah(side->pd, &to);
    CHECK(side->ah);
}

static struct ibv_sge sge_of(const struct side *side, size_t offset, uint32_t length)
{
    return (struct ibv_sge){.addr = (uintptr_t)side->memory + offset, .length = length, .lkey = side->mr->lkey};
}

static void post_receives(struct side *side, int count)
{
    struct ibv_sge sge = sge_of(side, BYTES, BYTES);
    struct ibv_recv_wr wr = {.wr_id = RECV_ID, .sg_list = &sge, .num_sge = 1}, *bad;
    for (int i = 0; i < count; ++i)
        EQUALS(0, ibv_post_recv(side->qp, &wr, &bad));
}

static gds_send_wr message(struct side *side, struct ibv_sge *sge)
{
    gds_send_wr wr = {
        .wr_id = SEND_ID,
        .sg_list = sge,
        .num_sge = 1,
        .exp_opcode = IBV_EXP_WR_SEND,
        .exp_send_flags = IBV_EXP_SEND_SIGNALED,
        .comp_mask = 0,
    };
    if (side->ah) {
        wr.wr.ud.ah = side->ah;
        wr.wr.ud.remote_qpn = side->qp->qp_num;
        wr.wr.ud.remote_qkey = KEY;
    }
    return wr;
}

/* Polls `count` successful completions. */
static struct ibv_wc polled(struct ibv_cq *cq, uint64_t id, int count)
{
    struct ibv_wc wc[DEPTH];
    int found = 0;
    for (int i = 0; i < 100000 && found < count; ++i) {
        const int more = ibv_poll_cq(cq, count - found, wc + found);
        CHECK(more >= 0);
        found += more;
        usleep(10);
    }
    EQUALS(count, found);
    for (int i = 0; i < count; ++i) {
        EQUALS(IBV_WC_SUCCESS, wc[i].status);
        EQUALS(id, wc[i].wr_id);
    }
    EQUALS(0, ibv_poll_cq(cq, 1, wc + DEPTH - 1));
    return wc[0];
}

/* A send, and the waits for it and for a message, as one list. */
struct work {
    gds_send_request_t send;
    gds_wait_request_t sent, received;
    gds_descriptor_t list[3];
};

static void describe(struct side *near, struct side *far, gds_send_wr *wr, struct work *work)
{
    gds_send_wr *bad;
    EQUALS(0, gds_prepare_send(near->gds_qp, wr, &bad, &work->send));
    EQUALS(0, gds_prepare_wait_cq(&near->gds_qp->send_cq, &work->sent, 0));
    EQUALS(0, gds_prepare_wait_cq(&far->gds_qp->recv_cq, &work->received, 0));
    work->list[0] = sends(&work->send);
    work->list[1] = waits(&work->sent);
    work->list[2] = waits(&work->received);
}

/* Batches queued ahead of a stream that waits until the CPU writes a word. */
static void batches(CUstream stream, struct side *near, struct side *far, int by)
{
    static uint32_t go[1024] __attribute__((aligned(4096)));
    static struct work works[BATCH * BATCHES];
    gds_send_wr *bad;
    struct ibv_sge sge = sge_of(near, 0, 1024);
    gds_send_wr wr = message(near, &sge);
    gds_descriptor_t gate = wait_for(go, 1, GDS_WAIT_COND_GEQ, GDS_MEMORY_HOST);
    store(go, 0);
    EQUALS(0, gds_stream_post_descriptors(stream, 1, &gate, 0));
    for (int i = 0; i < 1024; ++i)
        near->memory[i] = (char)(i + by);
    for (int i = 0; i < BATCH * BATCHES; ++i) {
        post_receives(far, 1);
        switch (by) {
        case 0:
            EQUALS(0, gds_stream_queue_send(stream, near->gds_qp, &wr, &bad));
            EQUALS(0, gds_stream_wait_cq(stream, &near->gds_qp->send_cq, 0));
            EQUALS(0, gds_stream_wait_cq(stream, &far->gds_qp->recv_cq, 0));
            break;
        default:
            describe(near, far, &wr, works + i);
            if (by == 1)
                EQUALS(0, gds_stream_post_descriptors(stream, 3, works[i].list, 0));
        }
    }
    EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    store(go, 1);
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    /* As a CUDA callback does without GPUDirect Async. */
    for (int i = 0; by == 2 && i < BATCH * BATCHES; ++i)
        EQUALS(0, gds_post_descriptors(3, works[i].list, 0));
    polled(near->sent, SEND_ID, BATCH * BATCHES);
    struct ibv_wc wc = polled(far->received, RECV_ID, BATCH * BATCHES);
    const uint32_t before = near->ah ? ROUTE : 0;
    EQUALS(1024 + before, wc.byte_len);
    CHECK(!memcmp(near->memory, far->memory + BYTES + before, 1024));
}

/* As libmp: puts and gets, requests posted together, and the words for kernels. */
static void one_sided(CUstream stream, struct side *near, struct side *far)
{
    gds_send_wr *bad;
    gds_send_request_t requests[2];
    gds_wait_request_t ends[2], unused;
    gds_mlx5_send_info_t send;
    gds_mlx5_wait_info_t wait;
    struct ibv_sge sge = sge_of(near, 0, INLINE), back = sge_of(near, 512, INLINE);
    gds_send_wr put = message(near, &sge), get = message(near, &back);
    put.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
    put.exp_send_flags |= IBV_EXP_SEND_INLINE;
    put.wr.rdma.remote_addr = (uintptr_t)far->memory + 100;
    put.wr.rdma.rkey = far->mr->rkey;
    get.exp_opcode = IBV_EXP_WR_RDMA_READ;
    get.exp_send_flags |= IBV_EXP_SEND_FENCE;
    get.wr.rdma = put.wr.rdma;
    memset(near->memory, 0x5a, INLINE);
    gds_send_wr *const work[] = {&put, &get};
    for (int i = 0; i < 2; ++i) {
        EQUALS(0, gds_prepare_send(near->gds_qp, work[i], &bad, requests + i));
        EQUALS(0, gds_prepare_wait_cq(&near->gds_qp->send_cq, ends + i, 0));
    }
    EQUALS(0, gds_mlx5_get_send_info(1, requests, &send));
    EQUALS(0, gds_mlx5_get_wait_info(1, ends, &wait));
    CHECK(send.dbrec_ptr && send.db_ptr && wait.cqe_ptr && wait.flag_ptr);
    EQUALS(0, gds_stream_post_send_all(stream, 2, requests));
    EQUALS(0, gds_stream_post_wait_cq_all(stream, 2, ends));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    polled(near->sent, SEND_ID, 2);
    CHECK(!memcmp(near->memory, far->memory + 100, INLINE) && !memcmp(near->memory, near->memory + 512, INLINE));
    /* A wait that nobody posts, so that the CPU polls. */
    struct ibv_wc wc;
    EQUALS(0, gds_post_send(near->gds_qp, &put, &bad));
    EQUALS(0, gds_prepare_wait_cq(&near->gds_qp->send_cq, &unused, 0));
    usleep(1000);
    EQUALS(0, ibv_poll_cq(near->sent, 1, &wc));
    EQUALS(0, gds_post_wait_cq(&near->gds_qp->send_cq, &unused, 0));
    polled(near->sent, SEND_ID, 1);
}

/* Verbs objects of the program itself, and of a queue pair that is destroyed. */
static void others(struct side *near, struct ibv_cq *gone_cq, struct ibv_qp *gone_qp)
{
    struct ibv_wc wc;
    struct ibv_recv_wr wr = {.wr_id = 9}, *bad;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_cq *own = ibv_create_cq(near->context, 4, NULL, NULL, 0);
    CHECK(own);
    struct ibv_qp_init_attr init = {.send_cq = own, .recv_cq = own, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_qp *pair = ibv_create_qp(near->pd, &init);
    CHECK(pair);
    EQUALS(-ENOENT, gds_poll_verbs_cq(own, 1, &wc));
    EQUALS(-ENOENT, gds_modify_verbs_qp(pair, &attr, IBV_QP_STATE));
    EQUALS(-ENOENT, gds_post_verbs_recv(pair, &wr, &bad));
    EQUALS(0, ibv_poll_cq(own, 1, &wc));
    EQUALS(0, ibv_modify_qp(pair, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    EQUALS(0, ibv_post_recv(pair, &wr, &bad));
    EQUALS(0, ibv_destroy_qp(pair));
    EQUALS(0, ibv_destroy_cq(own));
    EQUALS(-ENOENT, gds_poll_verbs_cq(NULL, 1, &wc));
    EQUALS(-ENOENT, gds_modify_verbs_qp(NULL, &attr, IBV_QP_STATE));
    EQUALS(-ENOENT, gds_post_verbs_recv(NULL, &wr, &bad));
    EQUALS(-EINVAL, gds_poll_verbs_cq(near->sent, -1, &wc));
    EQUALS(EINVAL, gds_modify_verbs_qp(near->qp, NULL, IBV_QP_STATE));
    EQUALS(EINVAL, gds_post_verbs_recv(near->qp, NULL, &bad));
    EQUALS(-ENOENT, gds_poll_verbs_cq(gone_cq, 1, &wc));
    EQUALS(-ENOENT, gds_modify_verbs_qp(gone_qp, &attr, IBV_QP_STATE));
    EQUALS(-ENOENT, gds_post_verbs_recv(gone_qp, &wr, &bad));
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    static struct side near, far, other;
    int version = 0, count = 0;
    EQUALS(0, gds_query_param(GDS_PARAM_VERSION, &version));
    CHECK(GDS_API_VERSION_COMPATIBLE(version));
    struct ibv_device **devices = ibv_get_device_list(&count);
    CHECK(devices && count > 0);
    open_side(&near, devices[0], IBV_QPT_UD);
    ready(&near);
    for (int by = 0; by < 3; ++by)
        batches(stream, &near, &near, by);
    close_side(&near);
    open_side(&near, devices[0], IBV_QPT_RC);
    open_side(&far, devices[count - 1], IBV_QPT_RC);
    open_side(&other, devices[0], IBV_QPT_RC);
    ibv_free_device_list(devices);
    connect_to(&near, &far);
    connect_to(&far, &near);
    for (int by = 0; by < 3; ++by) {
        batches(stream, &near, &far, by);
        batches(stream, &far, &near, by);
    }
    one_sided(stream, &near, &far);
    struct ibv_cq *gone_cq = other.sent;
    struct ibv_qp *gone_qp = other.qp;
    close_side(&other);
    others(&near, gone_cq, gone_qp);
    close_side(&near);
    close_side(&far);
    puts("release: ok");
    return 0;
}
