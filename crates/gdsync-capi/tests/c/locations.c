/*
 * Where the parts of a queue pair lie with each flag of gds_create_qp, and that it works there. IN_GPU_MEMORY: the flags that are obeyed;
 * without GDS_CREATE_QP_WQ_ON_GPU among them that flag is an error.
 */
#include "pair.h"

/* True if a GPU address is device memory. */
static int is_device(const void *address)
{
    unsigned type = 0;
    EQUALS(CUDA_SUCCESS, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)address));
    CHECK(type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE);
    return type == CU_MEMORYTYPE_DEVICE;
}

/* Makes the stream wait for a completion, whose queue is in device memory or not. */
static void wait_there(CUstream stream, struct gds_cq *cq, int in_device_memory)
{
    gds_wait_request_t wait;
    gds_mlx5_wait_info_t info;
    EQUALS(0, gds_prepare_wait_cq(cq, &wait, 0));
    EQUALS(0, gds_mlx5_get_wait_info(1, &wait, &info));
    EQUALS(in_device_memory, is_device(info.cqe_ptr));
    /* The busy word is always in host memory: the CPU polls it. */
    CHECK(!is_device(info.flag_ptr));
    EQUALS(0, gds_stream_post_wait_cq(stream, &wait));
}

static void one(CUstream stream, int flags, int obeyed)
{
    struct side side = new_side(near_nic());
    EQUALS(0, gds_destroy_qp(side.qp));
    gds_qp_init_attr_t attr = attributes();
    errno = 0;
    side.qp = gds_create_qp(side.pd, side.context, &attr, 0, flags);
    if (flags & GDS_CREATE_QP_WQ_ON_GPU && !(obeyed & GDS_CREATE_QP_WQ_ON_GPU)) {
        CHECK(!side.qp);
        EQUALS(EOPNOTSUPP, errno);
        end_side(&side);
        return;
    }
    CHECK(side.qp && side.qp->qp->send_cq == side.qp->send_cq.cq && side.qp->qp->recv_cq == side.qp->recv_cq.cq);
    CHECK(side.qp->qp->qp_type == IBV_QPT_RC && side.qp->qp->state == IBV_QPS_RESET && side.qp->qp->context == side.context);
    to_init(&side, gds_modify_qp);
    /* Out of order, then with a missing attribute. */
    struct ibv_qp_attr wrong;
    memset(&wrong, 0, sizeof wrong);
    wrong.qp_state = IBV_QPS_RTS;
    EQUALS(EINVAL, gds_modify_qp(side.qp, &wrong, IBV_QP_STATE | IBV_QP_SQ_PSN));
    wrong.qp_state = IBV_QPS_RTR;
    EQUALS(EINVAL, gds_modify_qp(side.qp, &wrong, IBV_QP_STATE | IBV_QP_AV));
    wrong.qp_state = IBV_QPS_RESET;
    EQUALS(EOPNOTSUPP, gds_modify_qp(side.qp, &wrong, IBV_QP_STATE));
    to_rtr(&side, &side, gds_modify_qp);
    to_rts(&side, gds_modify_qp);
    EQUALS(IBV_QPS_RTS, side.qp->qp->state);
    /* More rounds than the queues have slots; each by a stream that waits for the send and for the receive. */
    for (int round = 0; round < 3 * DEPTH; ++round) {
        gds_send_wr *bad = NULL;
        memset(side.memory, round + 1, 64);
        post_receive(&side, 100 + round, 4096, 64);
        struct ibv_sge sge = sge_of(&side, 0, 64);
        gds_send_wr message = work(round, IBV_WR_SEND, &sge, 1);
        gds_send_request_t request;
        EQUALS(0, gds_prepare_send(side.qp, &message, &bad, &request));
        if (round == 0) {
            gds_mlx5_send_info_t info;
            EQUALS(0, gds_mlx5_get_send_info(1, &request, &info));
            EQUALS(!!(flags & obeyed & GDS_CREATE_QP_WQ_DBREC_ON_GPU), is_device(info.dbrec_ptr));
            CHECK(!is_device(info.db_ptr));
        }
        EQUALS(0, gds_stream_post_send(stream, &request));
        wait_there(stream, &side.qp->send_cq, !!(flags & obeyed & GDS_CREATE_QP_TX_CQ_ON_GPU));
        wait_there(stream, &side.qp->recv_cq, !!(flags & obeyed & GDS_CREATE_QP_RX_CQ_ON_GPU));
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        poll_success(&side.qp->send_cq, round, IBV_WC_SEND);
        poll_success(&side.qp->recv_cq, 100 + round, IBV_WC_RECV);
        CHECK(!memcmp(side.memory, side.memory + 4096, 64));
    }
    side.may_stay = 1;
    end_side(&side);
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    const int obeyed = (int)strtol(getenv("IN_GPU_MEMORY"), NULL, 16);
    const int all[] = {GDS_CREATE_QP_WQ_ON_GPU, GDS_CREATE_QP_TX_CQ_ON_GPU, GDS_CREATE_QP_RX_CQ_ON_GPU, GDS_CREATE_QP_WQ_DBREC_ON_GPU};
    for (int bits = 0; bits < 16; ++bits) {
        int flags = 0;
        for (int i = 0; i < 4; ++i)
            flags |= bits >> i & 1 ? all[i] : 0;
        one(stream, flags, obeyed);
    }
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(stream));
    puts("locations: ok");
    return 0;
}
