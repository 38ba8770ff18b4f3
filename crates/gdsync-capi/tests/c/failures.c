/*
 * Failed work ends its wait and flushes later work; queue pairs are destroyed while streams wait, or before streams ring.
 */
#include "pair.h"

static struct ibv_wc failed(struct gds_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc = next(cq);
    EQUALS(id, wc.wr_id);
    EQUALS(status, wc.status);
    return wc;
}

/* Each kind of error, with a stream that continues; then the queue pair's other work. */
static void errors(CUstream stream)
{
    for (int cause = 0; cause < 5; ++cause) {
        struct side near = new_side(near_nic()), far = new_side(remote_nic());
        gds_send_wr *bad = NULL;
        join(&near, &far, gds_modify_qp);
        struct gds_cq *sent = &near.qp->send_cq, *received = &far.qp->recv_cq;
        struct ibv_sge sge = sge_of(&near, 0, 64);
        gds_send_wr wr = at(work(5, IBV_WR_RDMA_WRITE, &sge, 1), &far, 0);
        enum ibv_wc_status expected = IBV_WC_REM_ACCESS_ERR;
        switch (cause) {
        case 0: wr.wr.rdma.rkey ^= 0x5500; break;
        case 1: wr.wr.rdma.remote_addr += BYTES; break;
        case 2: sge.lkey ^= 0x5500, expected = IBV_WC_LOC_PROT_ERR; break;
        case 3: sge.length = BYTES + 1, expected = IBV_WC_LOC_PROT_ERR; break;
        case 4:
            /* Longer than the receive. */
            wr.opcode = IBV_WR_SEND, expected = IBV_WC_REM_INV_REQ_ERR;
            post_receive(&far, 6, 0, 8);
            EQUALS(0, gds_stream_wait_cq(stream, received, 0));
            break;
        }
        /* Not signalled, but errors always complete. */
        wr.send_flags = 0;
        CUstream other = new_stream();
        EQUALS(0, gds_stream_queue_send(other, near.qp, &wr, &bad));
        EQUALS(0, gds_stream_wait_cq(other, sent, 0));
        gds_send_wr behind = at(work(7, IBV_WR_RDMA_WRITE, &sge, 1), &far, 0);
        EQUALS(0, gds_stream_queue_send(other, near.qp, &behind, &bad));
        EQUALS(0, gds_stream_wait_cq(other, sent, 0));
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(other));
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        failed(sent, 5, expected);
        failed(sent, 7, IBV_WC_WR_FLUSH_ERR);
        if (cause == 4)
            failed(received, 6, IBV_WC_LOC_LEN_ERR);
        /* The verbs queue pair is in ERROR; later sends and receives are flushed. */
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        if (!is_mlx5() || !qp_flags()) {
            EQUALS(0, ibv_query_qp(near.qp->qp, &attr, IBV_QP_STATE, &init));
            EQUALS(IBV_QPS_ERR, attr.qp_state);
        }
        post_receive(&near, 8, 0, 8);
        EQUALS(0, gds_post_send(near.qp, &behind, &bad));
        failed(sent, 7, IBV_WC_WR_FLUSH_ERR);
        failed(&near.qp->recv_cq, 8, IBV_WC_WR_FLUSH_ERR);
        EQUALS(CUDA_SUCCESS, cuStreamDestroy(other));
        end_side(&near);
        end_side(&far);
    }
}

/* The program moves its queue pair to ERROR, by gds_modify_qp or ibv_modify_qp. */
static void given_up(CUstream stream)
{
    change *changes[] = {gds_modify_qp, by_verbs};
    for (int i = 0; i < 2; ++i) {
        struct side near = new_side(near_nic()), far = new_side(remote_nic());
        struct ibv_qp_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.qp_state = IBV_QPS_ERR;
        join(&near, &far, gds_modify_qp);
        post_receive(&near, 1, 0, 8);
        EQUALS(0, gds_stream_wait_cq(stream, &near.qp->recv_cq, 0));
        EQUALS(0, changes[i](near.qp, &attr, IBV_QP_STATE));
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        failed(&near.qp->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
        end_side(&near);
        end_side(&far);
    }
}

/* A stream waits for a completion that never comes, in every pass of the ring, and then rings a doorbell of the destroyed queue pair. */
static void destroyed(CUstream stream)
{
    for (int before = 0; before < 3 * DEPTH; before += DEPTH / 2) {
        struct side near = new_side(near_nic()), far = new_side(remote_nic());
        gds_send_wr *bad = NULL;
        join(&near, &far, gds_modify_qp);
        struct ibv_sge sge = sge_of(&near, 0, 8);
        gds_send_wr write = at(work(1, IBV_WR_RDMA_WRITE, &sge, 1), &far, 0);
        for (int i = 0; i < before; ++i) {
            EQUALS(0, gds_post_send(near.qp, &write, &bad));
            poll_success(&near.qp->send_cq, 1, IBV_WC_RDMA_WRITE);
        }
        uint32_t *words = aligned_alloc(4096, 4096);
        memset(words, 0, 4096);
        gds_send_request_t send;
        gds_wait_request_t wait[2];
        EQUALS(0, gds_prepare_send(near.qp, &write, &bad, &send));
        EQUALS(0, gds_prepare_wait_cq(&near.qp->send_cq, wait, 0));
        EQUALS(0, gds_prepare_wait_cq(&near.qp->send_cq, wait + 1, 0));
        gds_descriptor_t list[5];
        memset(list, 0, sizeof list);
        /* Nothing is sent, so the stream waits here. */
        list[0].tag = GDS_TAG_WAIT, list[0].wait = wait;
        list[1] = wait_for(words, 1, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST);
        list[2].tag = GDS_TAG_SEND, list[2].send = &send;
        list[3].tag = GDS_TAG_WAIT, list[3].wait = wait + 1;
        list[4] = write_word(words + 1, 1, GDS_MEMORY_HOST);
        EQUALS(0, gds_stream_post_descriptors(stream, 5, list, 0));
        EQUALS(0, gds_stream_wait_cq(stream, &near.qp->recv_cq, 0));
        usleep(2000);
        EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
        struct gds_qp *gone = near.qp;
        EQUALS(0, gds_destroy_qp(near.qp));
        near.qp = NULL;
        near.may_stay = is_mlx5();
        memset(far.memory, 0, 8);
        memset(near.memory, 1, 8);
        store(words, 1);
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        EQUALS(1, seen(words + 1));
        EQUALS(0, far.memory[0]);
        /* All functions reject it. */
        EQUALS(EINVAL, gds_destroy_qp(gone));
        EQUALS(EINVAL, gds_stream_post_send(stream, &send));
        EQUALS(EINVAL, gds_stream_post_wait_cq(stream, wait));
        end_side(&near);
        end_side(&far);
        free(words);
    }
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    errors(stream);
    given_up(stream);
    destroyed(stream);
    puts("failures: ok");
    return 0;
}
