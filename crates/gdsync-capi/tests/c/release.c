/*
 * A program for libgdsync's releases, with the types of MOFED's experimental verbs (gdsync/compat): sends by a stream and by the CPU, waits, and
 * polls verbs completion queues.
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

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct gds_qp *qp;
    struct ibv_cq *sent, *received;
    char memory[4096];
};

static void open_side(struct side *side, struct ibv_device *device)
{
    side->context = ibv_open_device(device);
    CHECK(side->context);
    side->pd = ibv_alloc_pd(side->context);
    side->mr = ibv_reg_mr(side->pd, side->memory, sizeof side->memory, IBV_ACCESS_LOCAL_WRITE);
    CHECK(side->mr);
    gds_qp_init_attr_t attr = {
        .send_cq = 0,
        .recv_cq = 0,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = 7,
    };
    side->qp = gds_create_qp(side->pd, side->context, &attr, 0, GDS_CREATE_QP_DEFAULT);
    CHECK(side->qp);
    EQUALS(7, attr.comp_mask);
    side->sent = side->qp->qp->send_cq;
    side->received = side->qp->qp->recv_cq;
    CHECK(side->sent == side->qp->send_cq.cq && side->received == side->qp->recv_cq.cq);
}

static void connect_to(struct side *side, struct side *far)
{
    struct ibv_port_attr port;
    EQUALS(0, ibv_query_port(far->context, 1, &port));
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    EQUALS(0, ibv_modify_qp(side->qp->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = far->qp->qp->qp_num,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = port.lid, .port_num = 1},
    };
    EQUALS(0, ibv_modify_qp(side->qp->qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    EQUALS(0, ibv_modify_qp(side->qp->qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_wc polled(struct ibv_cq *cq, uint64_t id)
{
    struct ibv_wc wc = {0};
    int count = 0;
    for (int i = 0; i < 100000 && !count; ++i) {
        count = ibv_poll_cq(cq, 1, &wc);
        usleep(10);
    }
    EQUALS(1, count);
    EQUALS(IBV_WC_SUCCESS, wc.status);
    EQUALS(id, wc.wr_id);
    return wc;
}

static void receive(struct side *side, uint64_t id)
{
    struct ibv_sge sge = {.addr = (uintptr_t)side->memory + 1024, .length = 1024, .lkey = side->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    EQUALS(0, gds_post_recv(side->qp, &wr, &bad));
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    static struct side near, far;
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);
    CHECK(devices && count == 2);
    open_side(&near, devices[0]);
    open_side(&far, devices[1]);
    ibv_free_device_list(devices);
    connect_to(&near, &far);
    connect_to(&far, &near);
    for (int round = 0; round < 20; ++round) {
        snprintf(near.memory, 64, "message %d", round);
        receive(&far, 100 + round);
        struct ibv_sge sge = {.addr = (uintptr_t)near.memory, .length = 64, .lkey = near.mr->lkey};
        gds_send_wr second = {
            .wr_id = round,
            .sg_list = &sge,
            .num_sge = 1,
            .exp_opcode = IBV_EXP_WR_SEND_WITH_IMM,
            .exp_send_flags = IBV_EXP_SEND_SIGNALED,
            .ex = {.imm_data = htobe32(1000 + round)},
            .comp_mask = 0,
        };
        gds_send_wr *bad = NULL;
        if (round % 2) {
            EQUALS(0, gds_post_send(near.qp, &second, &bad));
        } else {
            EQUALS(0, gds_stream_queue_send(stream, near.qp, &second, &bad));
            EQUALS(0, gds_stream_wait_cq(stream, &near.qp->send_cq, 0));
            EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        }
        polled(near.sent, round);
        struct ibv_wc wc = polled(far.received, 100 + round);
        EQUALS(64, wc.byte_len);
        EQUALS(htobe32(1000 + round), wc.imm_data);
        CHECK(!strcmp(near.memory, far.memory + 1024));
        EQUALS(0, ibv_poll_cq(far.received, 1, &wc));
    }
    /* A completion queue of the program, and one whose queue pair is destroyed. */
    struct ibv_wc wc;
    struct ibv_cq *own = ibv_create_cq(near.context, 4, NULL, NULL, 0);
    CHECK(own);
    EQUALS(-ENOENT, gds_poll_verbs_cq(own, 1, &wc));
    EQUALS(0, ibv_poll_cq(own, 1, &wc));
    EQUALS(0, ibv_destroy_cq(own));
    EQUALS(-ENOENT, gds_poll_verbs_cq(NULL, 1, &wc));
    EQUALS(-EINVAL, gds_poll_verbs_cq(near.sent, -1, &wc));
    EQUALS(0, gds_destroy_qp(near.qp));
    EQUALS(-ENOENT, gds_poll_verbs_cq(near.sent, 1, &wc));
    EQUALS(0, gds_destroy_qp(far.qp));
    puts("release: ok");
    return 0;
}
