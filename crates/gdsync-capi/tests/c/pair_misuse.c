/*
 * Every function of queue pairs with every kind of invalid argument: returns an errno and does nothing. Run with the address sanitizer.
 */
#include "pair.h"

#include <stddef.h>

static struct side near, far;

#define REFUSED(expected, call)                                                                                            \
    do {                                                                                                                   \
        errno = 0;                                                                                                         \
        CHECK((call) == NULL);                                                                                             \
        EQUALS(expected, errno);                                                                                           \
    } while (0)

static void creating(CUcontext context)
{
    gds_qp_init_attr_t attr = attributes();
    struct ibv_pd *const pd = near.pd;
    struct ibv_context *const device = near.context;
    REFUSED(EINVAL, gds_create_qp(NULL, device, &attr, 0, 0));
    REFUSED(EINVAL, gds_create_qp(pd, NULL, &attr, 0, 0));
    REFUSED(EINVAL, gds_create_qp(pd, device, NULL, 0, 0));
    REFUSED(EINVAL, gds_create_qp((struct ibv_pd *)((char *)pd + 1), device, &attr, 0, 0));
    REFUSED(EINVAL, gds_create_qp(pd, (struct ibv_context *)((char *)device + 2), &attr, 0, 0));
    REFUSED(EINVAL, gds_create_qp(pd, far.context, &attr, 0, 0));
    REFUSED(EINVAL, gds_create_qp(pd, device, &attr, -1, 0));
    REFUSED(EINVAL, gds_create_qp(pd, device, &attr, 99, 0));
    REFUSED(EINVAL, gds_create_qp(pd, device, &attr, 0, 8));
    REFUSED(EINVAL, gds_create_qp(pd, device, &attr, 0, -1));
    for (int i = 0; i < 10; ++i) {
        gds_qp_init_attr_t bad = attributes();
        int expected = EINVAL;
        switch (i) {
        case 0: bad.cap.max_send_wr = 1 << 16; break;
        case 1: bad.cap.max_recv_wr = ~0u; break;
        case 2: bad.cap.max_send_sge = 61; break;
        case 3: bad.cap.max_recv_sge = 1000; break;
        case 4: bad.cap.max_inline_data = 4000; break;
        case 5: bad.cap.max_send_wr = 1 << 15, bad.cap.max_send_sge = 60; break;
        /* An mlx5 NIC supports datagrams: datagrams.c. */
        case 6: bad.qp_type = IBV_QPT_RAW_PACKET; break;
        case 7: bad.qp_type = (enum ibv_qp_type)77; break;
        case 8: bad.srq = (struct ibv_srq *)near.memory, expected = EOPNOTSUPP; break;
        /* More than the NIC supports: its error. */
        case 9: bad.cap.max_recv_sge = 60; break;
        }
        REFUSED(expected, gds_create_qp(pd, device, &bad, 0, 0));
    }
    EQUALS(CUDA_SUCCESS, cuCtxSetCurrent(NULL));
    REFUSED(EINVAL, gds_create_qp(pd, device, &attr, 0, 0));
    EQUALS(CUDA_SUCCESS, cuCtxSetCurrent(context));
}

/* Unknown queue pairs in all functions. */
static void unknown_queues(CUstream stream)
{
    static struct gds_qp other;
    struct ibv_sge sge = sge_of(&near, 0, 8);
    gds_send_wr wr = work(1, IBV_WR_SEND, &sge, 1), *bad = NULL;
    struct ibv_recv_wr receive, *bad_receive = NULL;
    struct ibv_qp_attr attr;
    struct ibv_wc wc;
    gds_send_request_t send;
    gds_wait_request_t wait;
    memset(&attr, 0, sizeof attr);
    memset(&receive, 0, sizeof receive);
    struct gds_qp *const gone = near.qp;
    EQUALS(0, gds_destroy_qp(near.qp));
    struct gds_qp *const pairs[] = {NULL, &other, (struct gds_qp *)(uintptr_t)1, (struct gds_qp *)~(uintptr_t)0, gone};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i) {
        struct gds_qp *const qp = pairs[i];
        EQUALS(qp ? EINVAL : 0, gds_destroy_qp(qp));
        EQUALS(EINVAL, gds_modify_qp(qp, &attr, IBV_QP_STATE));
        EQUALS(EINVAL, gds_post_send(qp, &wr, &bad));
        EQUALS(EINVAL, gds_post_recv(qp, &receive, &bad_receive));
        EQUALS(EINVAL, gds_prepare_send(qp, &wr, &bad, &send));
        EQUALS(EINVAL, gds_stream_queue_send(stream, qp, &wr, &bad));
        struct gds_cq *const queues[] = {
            qp ? (struct gds_cq *)((uintptr_t)qp + offsetof(struct gds_qp, send_cq)) : NULL,
            qp ? (struct gds_cq *)((uintptr_t)qp + offsetof(struct gds_qp, recv_cq)) : NULL,
            (struct gds_cq *)qp,
        };
        for (size_t j = 0; j < 3; ++j) {
            EQUALS(EINVAL, gds_stream_wait_cq(stream, queues[j], 0));
            EQUALS(EINVAL, gds_prepare_wait_cq(queues[j], &wait, 0));
            EQUALS(EINVAL, gds_post_wait_cq(queues[j], &wait, 0));
            EQUALS(-EINVAL, gds_poll_cq(queues[j], 1, &wc));
        }
    }
    gds_qp_init_attr_t again = attributes();
    near.qp = gds_create_qp(near.pd, near.context, &again, 0, qp_flags());
    CHECK(near.qp);
}

static void sending(CUstream stream)
{
    struct ibv_sge sges[SGES + 1];
    gds_send_request_t request;
    for (int i = 0; i <= SGES; ++i)
        sges[i] = sge_of(&near, 0, 32);
    gds_send_wr good = at(work(1, IBV_WR_RDMA_WRITE, sges, 1), &far, 0);
    for (int call = 0; call < 3; ++call) {
        for (int i = 0; i < 16; ++i) {
            gds_send_wr first = good, wr = good, *bad = NULL;
            int expected = EINVAL;
            first.next = &wr;
            switch (i) {
            case 0: wr.num_sge = -1; break;
            case 1: wr.num_sge = SGES + 1; break;
            case 2: wr.num_sge = 1 << 30; break;
            case 3: wr.sg_list = NULL; break;
            case 4: wr.sg_list = (struct ibv_sge *)((char *)sges + 4); break;
            case 5: wr.opcode = (enum ibv_wr_opcode)99; break;
            case 6: wr.opcode = IBV_WR_LOCAL_INV, expected = EOPNOTSUPP; break;
            case 7: wr.opcode = IBV_WR_SEND_WITH_INV, expected = EOPNOTSUPP; break;
            case 8: wr.opcode = IBV_WR_TSO, expected = EOPNOTSUPP; break;
            case 9: wr.opcode = IBV_WR_BIND_MW, expected = EOPNOTSUPP; break;
            case 10: wr.send_flags |= 1 << 20; break;
            case 11: wr.send_flags |= IBV_SEND_IP_CSUM; break;
            /* 96 bytes. */
            case 12: wr.send_flags |= IBV_SEND_INLINE, wr.num_sge = 3; break;
            case 13: wr.send_flags |= IBV_SEND_INLINE, wr.opcode = IBV_WR_RDMA_READ, expected = EOPNOTSUPP; break;
            case 14: sges[0].length = 1u << 31, expected = EINVAL; break;
            case 15: wr.send_flags |= IBV_SEND_INLINE, sges[0].addr = 0; break;
            }
            int answer = call == 0   ? gds_prepare_send(near.qp, &first, &bad, &request)
                         : call == 1 ? gds_stream_queue_send(stream, near.qp, &first, &bad)
                                    : gds_post_send(near.qp, &first, &bad);
            EQUALS(expected, answer);
            /* The second of the list; with an invalid length, both are invalid. */
            CHECK(bad == (i == 14 ? &first : &wr));
            sges[0] = sge_of(&near, 0, 32);
        }
    }
    gds_send_wr *bad = &good;
    EQUALS(EINVAL, gds_prepare_send(near.qp, NULL, &bad, &request));
    CHECK(!bad);
    EQUALS(EINVAL, gds_prepare_send(near.qp, NULL, NULL, &request));
    EQUALS(EINVAL, gds_prepare_send(near.qp, (gds_send_wr *)((char *)&good + 1), NULL, &request));
    EQUALS(EINVAL, gds_prepare_send(near.qp, &good, NULL, NULL));
    EQUALS(EINVAL, gds_prepare_send(near.qp, &good, NULL, (gds_send_request_t *)((char *)&request + 4)));
    EQUALS(EINVAL, gds_stream_queue_send((CUstream)0x123450, near.qp, &good, NULL));
    /* The queue pair is unaffected. */
    usleep(2000);
    EQUALS(0, far.memory[0]);
    for (int i = 0; i < DEPTH; ++i)
        EQUALS(0, gds_post_send(near.qp, &good, NULL));
    for (int i = 0; i < DEPTH; ++i)
        poll_success(&near.qp->send_cq, 1, IBV_WC_RDMA_WRITE);
    none(&near.qp->send_cq);
}

static void receiving(void)
{
    struct ibv_sge sges[SGES + 1];
    struct ibv_recv_wr wr[2], *bad;
    struct ibv_wc wc[4];
    for (int i = 0; i <= SGES; ++i)
        sges[i] = sge_of(&near, 0, 8);
    for (int i = 0; i < 5; ++i) {
        memset(wr, 0, sizeof wr);
        wr[0].sg_list = wr[1].sg_list = sges;
        wr[0].num_sge = wr[1].num_sge = 1;
        wr[0].next = wr + 1;
        wr[0].wr_id = i;
        switch (i) {
        case 0: wr[1].num_sge = -1; break;
        case 1: wr[1].num_sge = SGES + 1; break;
        case 2: wr[1].sg_list = NULL; break;
        case 3: wr[1].sg_list = (struct ibv_sge *)((char *)sges + 1); break;
        case 4: wr[0].next = (struct ibv_recv_wr *)((char *)(wr + 1) + 1); break;
        }
        bad = NULL;
        /* Earlier ones stay posted, as with verbs. */
        EQUALS(EINVAL, gds_post_recv(near.qp, wr, &bad));
        CHECK(bad == wr[0].next);
    }
    EQUALS(EINVAL, gds_post_recv(near.qp, NULL, &bad));
    wr[0].next = NULL;
    for (int i = 5; i < DEPTH; ++i) {
        wr[0].wr_id = i;
        EQUALS(0, gds_post_recv(near.qp, wr, NULL));
    }
    EQUALS(ENOMEM, gds_post_recv(near.qp, wr, &bad));
    CHECK(bad == wr);
    EQUALS(-EINVAL, gds_poll_cq(&near.qp->recv_cq, 1, NULL));
    EQUALS(-EINVAL, gds_poll_cq(&near.qp->recv_cq, 1, (struct ibv_wc *)((char *)wc + 1)));
    EQUALS(-EINVAL, gds_poll_cq(&near.qp->recv_cq, -1, wc));
    EQUALS(0, gds_poll_cq(&near.qp->recv_cq, 0, NULL));
    /* All of them arrive, in order. */
    struct ibv_sge sge = sge_of(&far, 0, 8);
    gds_send_wr message = work(1, IBV_WR_SEND, &sge, 1);
    for (int i = 0; i < DEPTH; ++i)
        EQUALS(0, gds_post_send(far.qp, &message, NULL));
    for (int i = 0; i < DEPTH; ++i) {
        poll_success(&near.qp->recv_cq, i, IBV_WC_RECV);
        poll_success(&far.qp->send_cq, 1, IBV_WC_SEND);
    }
}

/* Requests of the wrong kind, of unknown queues, and modified, in every function. */
static void bad_send(CUstream stream, gds_send_request_t *request)
{
    gds_mlx5_send_info_t info;
    gds_descriptor_t list = {.tag = GDS_TAG_SEND, .send = request};
    memset(&info, 0xcc, sizeof info);
    EQUALS(EINVAL, gds_stream_post_send(stream, request));
    EQUALS(EINVAL, gds_stream_post_send_all(stream, 1, request));
    EQUALS(EINVAL, gds_stream_post_descriptors(stream, 1, &list, 0));
    EQUALS(EINVAL, gds_post_descriptors(1, &list, 0));
    EQUALS(EINVAL, gds_mlx5_get_send_info(1, request, &info));
    EQUALS(0xcccccccc, info.dbrec_value);
}

static void bad_wait(CUstream stream, gds_wait_request_t *request)
{
    gds_mlx5_wait_info_t info;
    gds_descriptor_t list = {.tag = GDS_TAG_WAIT, .wait = request};
    uint32_t word = 0;
    memset(&info, 0xcc, sizeof info);
    EQUALS(EINVAL, gds_stream_post_wait_cq(stream, request));
    EQUALS(EINVAL, gds_stream_post_wait_cq_all(stream, 1, request));
    EQUALS(EINVAL, gds_stream_post_descriptors(stream, 1, &list, 0));
    EQUALS(EINVAL, gds_post_descriptors(1, &list, 0));
    EQUALS(EINVAL, gds_append_wait_cq(request, &word, 1));
    EQUALS(EINVAL, gds_post_wait_cq(&near.qp->send_cq, request, 0));
    EQUALS(EINVAL, gds_mlx5_get_wait_info(1, request, &info));
    EQUALS(0xcccccccc, info.cqe_value);
}

static void requests(CUstream stream)
{
    gds_send_request_t send;
    gds_wait_request_t wait, garbage;
    gds_mlx5_send_info_t send_info;
    gds_mlx5_wait_info_t wait_info;
    struct ibv_sge sge = sge_of(&near, 0, 8);
    gds_send_wr wr = at(work(1, IBV_WR_RDMA_WRITE, &sge, 1), &far, 0);
    struct gds_cq *const sent = &near.qp->send_cq;
    uint32_t word[2];
    const uint32_t offset = sent->curr_offset;
    EQUALS(EINVAL, gds_prepare_wait_cq(sent, NULL, 0));
    EQUALS(EINVAL, gds_prepare_wait_cq(sent, &wait, 1));
    EQUALS(EINVAL, gds_prepare_wait_cq(sent, (gds_wait_request_t *)((char *)&wait + 1), 0));
    EQUALS(EINVAL, gds_stream_wait_cq(stream, sent, 1));
    EQUALS(offset, sent->curr_offset);
    EQUALS(0, gds_prepare_send(near.qp, &wr, NULL, &send));
    EQUALS(0, gds_prepare_wait_cq(sent, &wait, 0));
    bad_send(stream, NULL);
    bad_wait(stream, NULL);
    bad_send(stream, (gds_send_request_t *)((char *)&send + 1));
    bad_wait(stream, (gds_wait_request_t *)((char *)&wait + 1));
    bad_send(stream, (gds_send_request_t *)&wait);
    bad_wait(stream, (gds_wait_request_t *)&send);
    const int bytes[] = {0, 0x01, 0xcc, 0xff};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; ++i) {
        memset(&garbage, bytes[i], sizeof garbage);
        bad_send(stream, (gds_send_request_t *)&garbage);
        bad_wait(stream, &garbage);
    }
    for (size_t i = 0; i < 32; ++i) {
        garbage = wait;
        ((char *)&garbage)[i] ^= 1;
        bad_wait(stream, &garbage);
        memcpy(&garbage, &send, sizeof garbage);
        ((char *)&garbage)[i] ^= 0x80;
        bad_send(stream, (gds_send_request_t *)&garbage);
    }
    EQUALS(EINVAL, gds_stream_post_send_all(stream, -1, &send));
    EQUALS(EINVAL, gds_stream_post_wait_cq_all(stream, -1, &wait));
    EQUALS(0, gds_stream_post_send_all(stream, 0, NULL));
    EQUALS(0, gds_stream_post_wait_cq_all(stream, 0, &wait));
    EQUALS(EINVAL, gds_mlx5_get_send_info(-1, &send, &send_info));
    EQUALS(EINVAL, gds_mlx5_get_send_info(1, &send, NULL));
    EQUALS(EINVAL, gds_mlx5_get_wait_info(1, &wait, NULL));
    EQUALS(0, gds_mlx5_get_wait_info(0, NULL, NULL));
    EQUALS(EINVAL, gds_mlx5_get_wait_info(1, &wait, (gds_mlx5_wait_info_t *)((char *)&wait_info + 1)));
    EQUALS(EINVAL, gds_append_wait_cq(&wait, NULL, 1));
    EQUALS(EINVAL, gds_append_wait_cq(&wait, (uint32_t *)((char *)word + 1), 1));
    EQUALS(EINVAL, gds_post_wait_cq(sent, &wait, 1));
    EQUALS(EINVAL, gds_post_wait_cq(&near.qp->recv_cq, &wait, 0));
    EQUALS(EINVAL, gds_post_wait_cq(&far.qp->send_cq, &wait, 0));
    /* None was posted: both are still valid. */
    EQUALS(0, gds_stream_post_send(stream, &send));
    EQUALS(0, gds_stream_post_wait_cq(stream, &wait));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    poll_success(sent, 1, IBV_WC_RDMA_WRITE);
    /* With an invalid stream, the CPU polls the completion. */
    EQUALS(0, gds_post_send(near.qp, &wr, NULL));
    EQUALS(EINVAL, gds_stream_wait_cq((CUstream)0x123450, sent, 0));
    poll_success(sent, 1, IBV_WC_RDMA_WRITE);
    bad_send(stream, &send);
    bad_wait(stream, &wait);
}

static void changing(void)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RESET;
    EQUALS(EOPNOTSUPP, gds_modify_qp(near.qp, &attr, IBV_QP_STATE));
    EQUALS(EINVAL, gds_modify_qp(near.qp, NULL, IBV_QP_STATE));
    EQUALS(EINVAL, gds_modify_qp(near.qp, (struct ibv_qp_attr *)((char *)&attr + 1), IBV_QP_STATE));
    /* Rejected by verbs: RTS to RTR. */
    attr.qp_state = IBV_QPS_RTR;
    EQUALS(EINVAL, gds_modify_qp(near.qp, &attr, IBV_QP_STATE));
}

int main(void)
{
    CUcontext context = start();
    CUstream stream = new_stream();
    near = new_side(near_nic()), far = new_side(remote_nic());
    creating(context);
    unknown_queues(stream);
    join(&near, &far, gds_modify_qp);
    sending(stream);
    receiving();
    requests(stream);
    changing();
    end_side(&near);
    end_side(&far);
    puts("pair_misuse: ok");
    return 0;
}
