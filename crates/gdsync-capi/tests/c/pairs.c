/*
 * Queue pairs: data and completion of every operation, by streams and by the CPU; state changes by the library and by verbs; work posted
 * before RTS waits.
 */
#include "pair.h"

static void fill(unsigned char *to, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; ++i)
        to[i] = (unsigned char)(i * 31 + i / 251 + seed);
}

static void operations(CUstream stream, struct side *near, struct side *far, int by_cpu)
{
    struct gds_cq *sent = &near->qp->send_cq, *received = &far->qp->recv_cq;
    gds_send_wr *bad = NULL;
    uint32_t offset = sent->curr_offset, far_offset = received->curr_offset;
#define POST(wr)                                                                                                           \
    do {                                                                                                                   \
        if (by_cpu)                                                                                                        \
            EQUALS(0, gds_post_send(near->qp, &(wr), &bad));                                                               \
        else                                                                                                               \
            EQUALS(0, gds_stream_queue_send(stream, near->qp, &(wr), &bad));                                               \
    } while (0)

    fill(near->memory, BYTES, 1);
    memset(far->memory, 0, BYTES);
    /* A message with three SGEs; a stream waits for its receive, then the CPU polls it. */
    CUstream other = new_stream();
    post_receive(far, 70, 100, 1000);
    EQUALS(0, gds_stream_wait_cq(other, received, 0));
    EQUALS(++far_offset, received->curr_offset);
    none(received);
    struct ibv_sge three[] = {sge_of(near, 0, 10), sge_of(near, 500, 1), sge_of(near, 1000, 300)};
    gds_send_wr message = work(7, IBV_WR_SEND, three, 3);
    POST(message);
    EQUALS(0, gds_stream_wait_cq(stream, sent, 0));
    EQUALS(++offset, sent->curr_offset);
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(other));
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(other));
    CHECK(!memcmp(far->memory + 100, near->memory, 10) && far->memory[110] == near->memory[500]);
    CHECK(!memcmp(far->memory + 111, near->memory + 1000, 300) && far->memory[411] == 0);
    struct ibv_wc wc = poll_success(sent, 7, IBV_WC_SEND);
    EQUALS(near->qp->qp->qp_num, wc.qp_num);
    EQUALS(0, wc.vendor_err);
    EQUALS(0, wc.wc_flags);
    wc = poll_success(received, 70, IBV_WC_RECV);
    EQUALS(311, wc.byte_len);
    EQUALS(far->qp->qp->qp_num, wc.qp_num);
    EQUALS(0, wc.wc_flags);
    none(sent);
    none(received);

    /* Inline with immediate data; its memory can be reused at once. The CPU polls without a wait, which advances curr_offset. */
    unsigned char own[40];
    fill(own, sizeof own, 9);
    struct ibv_sge inlined[] = {{.addr = (uintptr_t)own, .length = 33}, {.addr = (uintptr_t)(own + 33), .length = 7}};
    post_receive(far, 71, 2000, 64);
    message = work(8, IBV_WR_SEND_WITH_IMM, inlined, 2);
    message.send_flags |= IBV_SEND_INLINE | IBV_SEND_SOLICITED;
    message.imm_data = htobe32(0x01020304);
    gds_send_request_t request;
    EQUALS(0, gds_prepare_send(near->qp, &message, &bad, &request));
    unsigned char kept[sizeof own];
    memcpy(kept, own, sizeof own);
    memset(own, 0xee, sizeof own);
    EQUALS(0, gds_stream_post_send(stream, &request));
    poll_success(sent, 8, IBV_WC_SEND);
    wc = poll_success(received, 71, IBV_WC_RECV);
    EQUALS(40, wc.byte_len);
    EQUALS(IBV_WC_WITH_IMM, wc.wc_flags);
    EQUALS(htobe32(0x01020304), wc.imm_data);
    CHECK(!memcmp(far->memory + 2000, kept, sizeof kept) && far->memory[2040] == 0);
    EQUALS(offset + 1, sent->curr_offset);
    EQUALS(far_offset + 1, received->curr_offset);

    /* Writes with and without immediate data, and a fenced read. */
    struct ibv_sge half = sge_of(near, 3000, 5000);
    gds_send_wr write = at(work(9, IBV_WR_RDMA_WRITE, &half, 1), far, 10000);
    POST(write);
    poll_success(sent, 9, IBV_WC_RDMA_WRITE);
    CHECK(!memcmp(far->memory + 10000, near->memory + 3000, 5000));
    post_receive(far, 72, 0, 0);
    write = at(work(10, IBV_WR_RDMA_WRITE_WITH_IMM, &half, 1), far, 20000);
    write.imm_data = 0x55aa1122;
    POST(write);
    poll_success(sent, 10, IBV_WC_RDMA_WRITE);
    wc = poll_success(received, 72, IBV_WC_RECV_RDMA_WITH_IMM);
    EQUALS(5000, wc.byte_len);
    EQUALS(0x55aa1122, wc.imm_data);
    CHECK(!memcmp(far->memory + 20000, near->memory + 3000, 5000));
    fill(far->memory + 30000, 3000, 77);
    struct ibv_sge into[] = {sge_of(near, 40000, 1000), sge_of(near, 42000, 2000)};
    gds_send_wr reads = at(work(11, IBV_WR_RDMA_READ, into, 2), far, 30000);
    reads.send_flags |= IBV_SEND_FENCE;
    POST(reads);
    wc = poll_success(sent, 11, IBV_WC_RDMA_READ);
    EQUALS(3000, wc.byte_len);
    CHECK(!memcmp(near->memory + 40000, far->memory + 30000, 1000) && !memcmp(near->memory + 42000, far->memory + 31000, 2000));

    /* Atomics. */
    uint64_t *word = (uint64_t *)(far->memory + 50000), *was = (uint64_t *)(near->memory + 50000);
    *word = 41;
    struct ibv_sge eight = sge_of(near, 50000, 8);
    gds_send_wr atomic = work(12, IBV_WR_ATOMIC_FETCH_AND_ADD, &eight, 1);
    atomic.wr.atomic.remote_addr = (uintptr_t)word;
    atomic.wr.atomic.rkey = far->mr->rkey;
    atomic.wr.atomic.compare_add = 1;
    POST(atomic);
    wc = poll_success(sent, 12, IBV_WC_FETCH_ADD);
    EQUALS(8, wc.byte_len);
    EQUALS(41, *was);
    EQUALS(42, *word);
    atomic.wr_id = 13;
    atomic.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    atomic.wr.atomic.compare_add = 42;
    atomic.wr.atomic.swap = 1000;
    POST(atomic);
    poll_success(sent, 13, IBV_WC_COMP_SWAP);
    EQUALS(42, *was);
    EQUALS(1000, *word);

    /* A list: unsignalled sends have no completion, and finish before signalled ones. */
    struct ibv_sge pieces[3];
    gds_send_wr list[3];
    for (int i = 0; i < 3; ++i) {
        pieces[i] = sge_of(near, 100 * i, 100);
        list[i] = at(work(20 + i, IBV_WR_RDMA_WRITE, pieces + i, 1), far, 60000 + 100 * i);
        list[i].send_flags = i == 2 ? IBV_SEND_SIGNALED : 0;
        list[i].next = i == 2 ? NULL : list + i + 1;
    }
    POST(list[0]);
    poll_success(sent, 22, IBV_WC_RDMA_WRITE);
    none(sent);
    CHECK(!memcmp(far->memory + 60000, near->memory, 300));
#undef POST
}

/* Work posted before the state allows it waits, and continues without a call. */
static void too_early(CUstream stream)
{
    struct side near = new_side(near_nic()), far = new_side(remote_nic());
    gds_send_wr *bad = NULL;
    fill(near.memory, 64, 3);
    post_receive(&far, 1, 0, 64);
    EQUALS(0, gds_stream_wait_cq(stream, &far.qp->recv_cq, 0));
    struct ibv_sge sge = sge_of(&near, 0, 64);
    gds_send_wr message = work(2, IBV_WR_SEND, &sge, 1);
    CUstream other = new_stream();
    EQUALS(0, gds_stream_queue_send(other, near.qp, &message, &bad));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(other));
    EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    join(&near, &far, by_verbs);
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    CHECK(!memcmp(near.memory, far.memory, 64));
    poll_success(&near.qp->send_cq, 2, IBV_WC_SEND);
    poll_success(&far.qp->recv_cq, 1, IBV_WC_RECV);
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(other));
    end_side(&near);
    end_side(&far);
}

/* sq_sig_all signals every send; on a queue pair connected to itself. */
static void all_signalled(CUstream stream)
{
    struct side side = new_side(near_nic());
    EQUALS(0, gds_destroy_qp(side.qp));
    gds_qp_init_attr_t attr = attributes();
    int mine;
    attr.sq_sig_all = 1;
    attr.qp_context = &mine;
    attr.cap.max_send_wr = 5;
    side.qp = gds_create_qp(side.pd, side.context, &attr, 0, qp_flags());
    CHECK(side.qp && attr.cap.max_send_wr == 5 && attr.send_cq == side.qp->send_cq.cq && attr.recv_cq == side.qp->recv_cq.cq);
    CHECK(side.qp->qp->qp_context == &mine && side.qp->dev_context == side.context);
    /* On mlx5 it is a thread domain within this one. */
    CHECK(is_mlx5() || side.qp->qp->pd == side.pd);
    to_init(&side, gds_modify_qp);
    to_rtr(&side, &side, gds_modify_qp);
    to_rts(&side, gds_modify_qp);
    gds_send_wr *bad = NULL;
    struct ibv_sge sge = sge_of(&side, 0, 8);
    memset(side.memory, 0x5a, 8);
    for (int i = 0; i < 5; ++i) {
        gds_send_wr write = at(work(i, IBV_WR_RDMA_WRITE, &sge, 1), &side, 1000 + 8 * i);
        write.send_flags = 0;
        EQUALS(0, gds_stream_queue_send(stream, side.qp, &write, &bad));
    }
    gds_send_wr more = at(work(9, IBV_WR_RDMA_WRITE, &sge, 1), &side, 2000);
    EQUALS(ENOMEM, gds_stream_queue_send(stream, side.qp, &more, &bad));
    CHECK(bad == &more);
    for (int i = 0; i < 5; ++i)
        poll_success(&side.qp->send_cq, i, IBV_WC_RDMA_WRITE);
    for (int i = 0; i < 40; ++i)
        EQUALS(0x5a, side.memory[1000 + i]);
    EQUALS(0, side.memory[2000]);
    end_side(&side);
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    change *changes[] = {gds_modify_qp, by_verbs};
    for (int i = 0; i < 2; ++i) {
        struct side near = new_side(near_nic()), far = new_side(remote_nic());
        EQUALS(0, near.qp->send_cq.curr_offset);
        join(&near, &far, changes[i]);
        operations(stream, &near, &far, 0);
        operations(stream, &far, &near, 0);
        operations(stream, &near, &far, 1);
        end_side(&near);
        end_side(&far);
    }
    /* An mlx5 NIC ignores doorbells before RTS. */
    if (!is_mlx5())
        too_early(stream);
    all_signalled(stream);
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(stream));
    puts("pairs: ok");
    return 0;
}
