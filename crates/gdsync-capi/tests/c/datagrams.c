/*
 * Datagrams of a NIC: ping-pong by streams and by the CPU, on InfiniBand and, with mlx5, RoCE; their completions; lost datagrams; and every kind of
 * invalid request.
 */
#include "pair.h"

enum { KEY = 0x11223344, ROUTE = 40 };

/* A side on a port, in RTS. */
static struct side ready(uint8_t port)
{
    struct side side = new_side(remote_nic());
    gds_qp_init_attr_t ud_attributes = attributes();
    struct ibv_qp_attr attr;
    EQUALS(0, gds_destroy_qp(side.qp));
    ud_attributes.qp_type = IBV_QPT_UD;
    side.qp = gds_create_qp(side.pd, side.context, &ud_attributes, 0, qp_flags());
    CHECK(side.qp);
    EQUALS(IBV_QPT_UD, side.qp->qp->qp_type);
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = port;
    attr.qkey = KEY;
    EQUALS(0, gds_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    attr.qp_state = IBV_QPS_RTR;
    EQUALS(0, gds_modify_qp(side.qp, &attr, IBV_QP_STATE));
    attr.qp_state = IBV_QPS_RTS;
    EQUALS(0, gds_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    return side;
}

/* An address handle of the NIC itself: its LID with a service level, or its RoCE v2 GID. */
static struct ibv_ah *address_handle(const struct side *side, uint8_t port)
{
    struct ibv_ah_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.port_num = port;
    if (port == 1) {
        attr.dlid = side->lid;
        attr.sl = 3;
    } else {
        attr.is_global = 1;
        attr.grh.sgid_index = 1;
        attr.grh.hop_limit = 4;
        EQUALS(0, ibv_query_gid(side->context, port, 1, &attr.grh.dgid));
    }
    struct ibv_ah *ah = ibv_create_ah(side->pd, &attr);
    CHECK(ah);
    return ah;
}

static gds_send_wr to(gds_send_wr wr, struct ibv_ah *ah, const struct side *far)
{
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = far->qp->qp->qp_num;
    wr.wr.ud.remote_qkey = KEY;
    return wr;
}

/* Checks the completion of a receive from `near`; `flags` without IBV_WC_GRH. */
static void arrived(struct side *far, const struct side *near, uint64_t id, uint32_t bytes, unsigned flags, uint8_t port)
{
    struct ibv_wc wc = poll_success(&far->qp->recv_cq, id, IBV_WC_RECV);
    EQUALS(ROUTE + bytes, wc.byte_len);
    EQUALS(near->qp->qp->qp_num, wc.src_qp);
    EQUALS(far->qp->qp->qp_num, wc.qp_num);
    EQUALS(flags | (port == 1 ? 0 : IBV_WC_GRH), wc.wc_flags);
    EQUALS(port == 1 ? near->lid : 0, wc.slid);
    EQUALS(port == 1 ? 3 : 0, wc.sl);
    EQUALS(0, wc.dlid_path_bits);
}

/* Ping-pong by streams, long enough for both rings to wrap. */
static void there_and_back(CUstream stream, struct side *near, struct side *far, uint8_t port)
{
    CUstream other = new_stream();
    struct ibv_ah *there = address_handle(near, port), *back = address_handle(far, port);
    struct ibv_sge ping = sge_of(near, 0, 100), pong = sge_of(far, 1000 + ROUTE, 100);
    gds_send_wr *bad = NULL;
    for (int round = 0; round < 50; ++round) {
        memset(near->memory, 0, BYTES);
        memset(far->memory, 0, BYTES);
        memset(near->memory, round + 1, 100);
        post_receive(far, 100 + round, 1000, ROUTE + 100);
        post_receive(near, 200 + round, 2000, ROUTE + 100);
        gds_send_wr answer = to(work(2, IBV_WR_SEND, &pong, 1), back, near);
        EQUALS(0, gds_stream_wait_cq(other, &far->qp->recv_cq, 0));
        EQUALS(0, gds_stream_queue_send(other, far->qp, &answer, &bad));
        EQUALS(0, gds_stream_wait_cq(other, &far->qp->send_cq, 0));
        none(&far->qp->recv_cq);
        gds_send_wr call = to(work(1, IBV_WR_SEND, &ping, 1), there, far);
        EQUALS(0, gds_stream_queue_send(stream, near->qp, &call, &bad));
        EQUALS(0, gds_stream_wait_cq(stream, &near->qp->send_cq, 0));
        EQUALS(0, gds_stream_wait_cq(stream, &near->qp->recv_cq, 0));
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(other));
        CHECK(!memcmp(near->memory + 2000 + ROUTE, near->memory, 100) && near->memory[2000 + ROUTE + 100] == 0);
        poll_success(&near->qp->send_cq, 1, IBV_WC_SEND);
        poll_success(&far->qp->send_cq, 2, IBV_WC_SEND);
        arrived(far, near, 100 + round, 100, 0, port);
        arrived(near, far, 200 + round, 100, 0, port);
    }
    EQUALS(0, ibv_destroy_ah(there));
    EQUALS(0, ibv_destroy_ah(back));
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(other));
}

/* By the CPU; inline with immediate data; and with an address handle destroyed before the request is posted. */
static void by_cpu(CUstream stream, struct side *near, struct side *far, uint8_t port)
{
    struct ibv_ah *ah = address_handle(near, port);
    struct ibv_sge two[] = {sge_of(near, 0, 30), sge_of(near, 500, 12)};
    gds_send_wr *bad = NULL;
    gds_send_request_t request;
    for (int i = 0; i < 600; ++i)
        near->memory[i] = (unsigned char)(i * 7);
    memset(far->memory, 0, BYTES);
    post_receive(far, 5, 0, 512);
    post_receive(far, 6, 1000, 512);
    gds_send_wr wr = to(work(1, IBV_WR_SEND, two, 2), ah, far);
    EQUALS(0, gds_post_send(near->qp, &wr, &bad));
    poll_success(&near->qp->send_cq, 1, IBV_WC_SEND);
    arrived(far, near, 5, 42, 0, port);
    CHECK(!memcmp(far->memory + ROUTE, near->memory, 30) && !memcmp(far->memory + ROUTE + 30, near->memory + 500, 12));
    wr.wr_id = 2;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htobe32(0x0a0b0c0d);
    wr.send_flags |= IBV_SEND_INLINE;
    EQUALS(0, gds_prepare_send(near->qp, &wr, &bad, &request));
    /* With the proxy the device reads the handle later. */
    if (is_mlx5())
        EQUALS(0, ibv_destroy_ah(ah));
    memset(near->memory, 0xee, 600);
    EQUALS(0, gds_stream_post_send(stream, &request));
    poll_success(&near->qp->send_cq, 2, IBV_WC_SEND);
    if (!is_mlx5())
        EQUALS(0, ibv_destroy_ah(ah));
    struct ibv_wc wc = next(&far->qp->recv_cq);
    EQUALS(6, wc.wr_id);
    EQUALS(ROUTE + 42, wc.byte_len);
    EQUALS(IBV_WC_WITH_IMM | (port == 1 ? 0 : IBV_WC_GRH), wc.wc_flags);
    EQUALS(htobe32(0x0a0b0c0d), wc.imm_data);
    EQUALS(7 * 29 & 0xff, far->memory[1000 + ROUTE + 29]);
    EQUALS(0, far->memory[1000 + ROUTE + 42]);
}

/* Wrong Q_Key, unknown QPN, no receive: sent successfully but lost. A receive without room for the GRH fails. */
static void lost(struct side *near, struct side *far, uint8_t port)
{
    struct ibv_ah *ah = address_handle(near, port);
    struct ibv_sge sge = sge_of(near, 0, 8);
    gds_send_wr *bad = NULL;
    const gds_send_wr good = to(work(1, IBV_WR_SEND, &sge, 1), ah, far);
    EQUALS(0, gds_post_send(near->qp, (gds_send_wr *)&good, &bad));
    poll_success(&near->qp->send_cq, 1, IBV_WC_SEND);
    post_receive(far, 7, 0, ROUTE + 7);
    for (int i = 0; i < 2; ++i) {
        gds_send_wr wr = good;
        if (i)
            wr.wr.ud.remote_qpn = 1;
        else
            wr.wr.ud.remote_qkey ^= 1;
        EQUALS(0, gds_post_send(near->qp, &wr, &bad));
        poll_success(&near->qp->send_cq, 1, IBV_WC_SEND);
        none(&far->qp->recv_cq);
    }
    EQUALS(0, gds_post_send(near->qp, (gds_send_wr *)&good, &bad));
    poll_success(&near->qp->send_cq, 1, IBV_WC_SEND);
    struct ibv_wc wc = next(&far->qp->recv_cq);
    EQUALS(7, wc.wr_id);
    EQUALS(IBV_WC_LOC_LEN_ERR, wc.status);
    EQUALS(0, wc.wc_flags);
    EQUALS(0, ibv_destroy_ah(ah));
}

/* The maximum number of requests, with the maximum of inline data. */
static void full(struct side *near, struct side *far, uint8_t port)
{
    struct ibv_ah *ah = address_handle(near, port);
    struct ibv_sge sge = sge_of(near, 0, INLINE);
    gds_send_wr *bad = NULL, wr = to(work(1, IBV_WR_SEND, &sge, 1), ah, far);
    gds_send_request_t request;
    wr.send_flags |= IBV_SEND_INLINE;
    for (int i = 0; i < DEPTH; ++i)
        EQUALS(0, gds_prepare_send(near->qp, &wr, &bad, &request));
    EQUALS(ENOMEM, gds_prepare_send(near->qp, &wr, &bad, &request));
    EQUALS(0, gds_post_descriptors(1, &(gds_descriptor_t){.tag = GDS_TAG_SEND, .send = &request}, 0));
    for (int i = 0; i < DEPTH; ++i)
        poll_success(&near->qp->send_cq, 1, IBV_WC_SEND);
    EQUALS(0, ibv_destroy_ah(ah));
}

static void misuse(CUstream stream, struct side *near, struct side *far)
{
    struct ibv_ah *ah = address_handle(near, 1), *others = address_handle(far, 1);
    struct ibv_sge sge = sge_of(near, 0, 8);
    const gds_send_wr good = to(work(1, IBV_WR_SEND, &sge, 1), ah, far);
    gds_send_request_t request;
    for (int how = 0; how < 3; ++how) {
        for (int i = 0; i < 10; ++i) {
            gds_send_wr first = good, wr = good, *bad = NULL;
            int expected = EINVAL;
            first.next = &wr;
            switch (i) {
            case 0: wr.wr.ud.ah = NULL; break;
            /* An opcode of connections. */
            case 1: wr = work(2, IBV_WR_SEND, &sge, 1); break;
            case 2: wr.wr.ud.ah = (struct ibv_ah *)((char *)ah + 1); break;
            case 3: wr.wr.ud.ah = others; break;
            case 4: wr.wr.ud.remote_qpn = 1 << 24; break;
            case 5: wr = at(work(2, IBV_WR_RDMA_WRITE, &sge, 1), far, 0); break;
            case 6: wr = at(work(2, IBV_WR_RDMA_WRITE_WITH_IMM, &sge, 1), far, 0); break;
            case 7: wr = at(work(2, IBV_WR_RDMA_READ, &sge, 1), far, 0); break;
            case 8: wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD; break;
            case 9: wr.opcode = IBV_WR_TSO, expected = EOPNOTSUPP; break;
            }
            if (how == 0)
                EQUALS(expected, gds_post_send(near->qp, &first, &bad));
            else if (how == 1)
                EQUALS(expected, gds_stream_queue_send(stream, near->qp, &first, &bad));
            else
                EQUALS(expected, gds_prepare_send(near->qp, &first, &bad, &request));
            CHECK(bad == &wr);
        }
    }
    /* Nothing of the lists was posted. */
    none(&near->qp->send_cq);
    gds_send_wr wr = good, *bad = NULL;
    EQUALS(0, gds_post_send(near->qp, &wr, &bad));
    poll_success(&near->qp->send_cq, 1, IBV_WC_SEND);
    none(&near->qp->send_cq);
    /* An address takes what a connection's entry has for the far memory, and more. */
    for (int i = 0; i < 3; ++i) {
        gds_qp_init_attr_t attr = attributes();
        attr.qp_type = IBV_QPT_UD;
        attr.cap.max_send_sge = i == 0 ? 60 : 1;
        attr.cap.max_inline_data = i == 1 ? 941 : i == 2 ? 940 : 0;
        errno = 0;
        struct gds_qp *qp = gds_create_qp(near->pd, near->context, &attr, 0, qp_flags());
        EQUALS(i == 2, qp != NULL);
        EQUALS(i == 2 ? 0 : EINVAL, qp ? gds_destroy_qp(qp) : errno);
    }
    EQUALS(0, ibv_destroy_ah(ah));
    EQUALS(0, ibv_destroy_ah(others));
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    for (uint8_t port = 1; port <= (is_mlx5() ? 2 : 1); ++port) {
        struct side near = ready(port), far = ready(port);
        there_and_back(stream, &near, &far, port);
        by_cpu(stream, &near, &far, port);
        if (port == 1)
            misuse(stream, &near, &far);
        full(&near, &far, port);
        lost(&near, &far, port);
        end_side(&near);
        end_side(&far);
    }
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(stream));
    puts("datagrams: ok");
    return 0;
}
