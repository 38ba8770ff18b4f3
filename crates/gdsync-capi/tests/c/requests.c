/*
 * Requests: prepared, posted in lists by streams and by the CPU, copied, abandoned, appended to; full queues; rings that wrap many times;
 * and addresses and values for kernels.
 */
#include "pair.h"

#include <pthread.h>

static struct side near, far;

static gds_send_wr put(struct ibv_sge *sge, uint64_t id, size_t from, size_t to, uint32_t bytes)
{
    *sge = sge_of(&near, from, bytes);
    return at(work(id, IBV_WR_RDMA_WRITE, sge, 1), &far, to);
}

static int post(CUstream stream, int by_cpu, size_t count, gds_descriptor_t *list)
{
    return by_cpu ? gds_post_descriptors(count, list, 0) : gds_stream_post_descriptors(stream, count, list, 0);
}

/* wait, send, wait for it, write: as one list, which starts after the first wait. */
static uint32_t words[16] __attribute__((aligned(4096)));

static void *let_go(void *unused)
{
    (void)unused;
    usleep(3000);
    EQUALS(0, far.memory[5000]);
    store(words, 1);
    return NULL;
}

static void in_one_list(CUstream stream, int by_cpu)
{
    struct ibv_sge sge;
    gds_send_wr *bad = NULL;
    gds_send_request_t send, copy;
    gds_wait_request_t wait;
    pthread_t other;
    memset(words, 0, sizeof words);
    memset(far.memory, 0, BYTES);
    memset(near.memory, 7, 100);
    gds_send_wr wr = put(&sge, 1, 0, 5000, 100);
    EQUALS(0, gds_prepare_send(near.qp, &wr, &bad, &send));
    EQUALS(0, gds_prepare_wait_cq(&near.qp->send_cq, &wait, 0));
    for (int i = 0; i < 30; ++i)
        EQUALS(0, gds_append_wait_cq(&wait, words + 2, 100 + i));
    EQUALS(ENOMEM, gds_append_wait_cq(&wait, words + 2, 1));
    /* A copy is equivalent to the request. */
    memcpy(&copy, &send, sizeof copy);
    memset(&send, 0, sizeof send);
    gds_descriptor_t list[] = {
        wait_for(words, 1, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST),
        sends(&copy),
        waits(&wait),
        write_word(words + 1, 5, GDS_MEMORY_HOST),
    };
    /* Register `words`: appended writes use GPU addresses. */
    gds_mlx5_dword_wait_info_t seen_at;
    EQUALS(0, gds_mlx5_get_dword_wait_info(words + 2, 0, GDS_MEMORY_HOST, &seen_at));
    CHECK(seen_at.ptr == words + 2);
    EQUALS(0, pthread_create(&other, NULL, let_go, NULL));
    EQUALS(0, post(stream, by_cpu, 4, list));
    if (!by_cpu)
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(0, pthread_join(other, NULL));
    EQUALS(5, seen(words + 1));
    EQUALS(129, seen(words + 2));
    EQUALS(7, far.memory[5099]);
    /* Each request can be posted once. */
    EQUALS(EINVAL, post(stream, by_cpu, 1, list + 1));
    EQUALS(EINVAL, post(stream, by_cpu, 1, list + 2));
    poll_success(&near.qp->send_cq, 1, IBV_WC_RDMA_WRITE);
    EQUALS(EINVAL, post(stream, by_cpu, 1, list + 1));
    EQUALS(EINVAL, post(stream, by_cpu, 1, list + 2));
    EQUALS(EINVAL, gds_append_wait_cq(&wait, words + 2, 1));
    EQUALS(EINVAL, gds_post_wait_cq(&near.qp->send_cq, &wait, 0));
}

/* A rejected list leaves its requests available. */
static void refused(CUstream stream, int by_cpu)
{
    struct ibv_sge sge;
    gds_send_wr *bad = NULL;
    gds_send_request_t send;
    gds_wait_request_t wait;
    gds_send_wr wr = put(&sge, 2, 0, 6000, 4);
    EQUALS(0, gds_prepare_send(near.qp, &wr, &bad, &send));
    EQUALS(0, gds_prepare_wait_cq(&near.qp->send_cq, &wait, 0));
    gds_descriptor_t list[] = {sends(&send), waits(&wait), wait_for(words, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST)};
    list[2].wait32.flags = 0;
    far.memory[6000] = 0;
    EQUALS(EINVAL, post(stream, by_cpu, 3, list));
    list[2] = list[0];
    EQUALS(EINVAL, post(stream, by_cpu, 3, list));
    if (!by_cpu)
        EQUALS(EINVAL, gds_stream_post_descriptors((CUstream)0x123450, 2, list, 0));
    usleep(3000);
    EQUALS(0, far.memory[6000]);
    EQUALS(0, post(stream, by_cpu, 2, list));
    poll_success(&near.qp->send_cq, 2, IBV_WC_RDMA_WRITE);
    EQUALS(7, far.memory[6000]);
}

/* Prepared requests, posted in one call and one by one; the doorbell of a later one covers earlier ones. */
static void many(CUstream stream)
{
    struct ibv_sge sges[DEPTH + 1];
    gds_send_wr *bad = NULL;
    static gds_send_request_t requests[DEPTH];
    static gds_wait_request_t waiting[DEPTH];
    for (int i = 0; i < DEPTH; ++i) {
        near.memory[i] = 0x80 + i;
        gds_send_wr wr = put(sges + i, 100 + i, i, 7000 + i, 1);
        EQUALS(0, gds_prepare_send(near.qp, &wr, &bad, requests + i));
        EQUALS(0, gds_prepare_wait_cq(&near.qp->send_cq, waiting + i, 0));
    }
    /* Both queues are full; nothing of a list is posted. */
    gds_send_wr more = put(sges + DEPTH, 1, 0, 0, 1);
    gds_send_request_t request;
    EQUALS(ENOMEM, gds_prepare_send(near.qp, &more, &bad, &request));
    CHECK(bad == &more);
    EQUALS(ENOMEM, gds_post_send(near.qp, &more, NULL));
    gds_wait_request_t wait;
    EQUALS(ENOMEM, gds_prepare_wait_cq(&near.qp->send_cq, &wait, 0));
    memset(far.memory + 7000, 0, DEPTH);
    EQUALS(0, gds_stream_post_send_all(stream, 3, requests));
    EQUALS(0, gds_stream_post_send(stream, requests + 4));
    /* The doorbell of 4 covered 3. */
    EQUALS(EINVAL, gds_stream_post_send(stream, requests + 3));
    EQUALS(0, gds_stream_post_send_all(stream, DEPTH - 5, requests + 5));
    EQUALS(0, gds_stream_post_wait_cq_all(stream, DEPTH - 1, waiting));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    /* The last wait is abandoned. */
    EQUALS(EINVAL, gds_post_wait_cq(&near.qp->recv_cq, waiting + DEPTH - 1, 0));
    EQUALS(EINVAL, gds_post_wait_cq(&near.qp->send_cq, waiting, 0));
    for (int i = 0; i < DEPTH - 1; ++i)
        poll_success(&near.qp->send_cq, 100 + i, IBV_WC_RDMA_WRITE);
    none(&near.qp->send_cq);
    EQUALS(0, gds_post_wait_cq(&near.qp->send_cq, waiting + DEPTH - 1, 0));
    EQUALS(EINVAL, gds_stream_post_wait_cq(stream, waiting + DEPTH - 1));
    poll_success(&near.qp->send_cq, 100 + DEPTH - 1, IBV_WC_RDMA_WRITE);
    for (int i = 0; i < DEPTH; ++i)
        EQUALS(0x80 + i, far.memory[7000 + i]);

    /* A list longer than the queue, and a cyclic one. */
    gds_send_wr list[DEPTH + 1];
    for (int i = 0; i <= DEPTH; ++i) {
        list[i] = put(sges + i, i, 0, 8000, 1);
        list[i].next = i < DEPTH ? list + i + 1 : list;
    }
    EQUALS(ENOMEM, gds_prepare_send(near.qp, list, &bad, &request));
    CHECK(bad == list + DEPTH);
    /* Everything was rolled back. */
    list[DEPTH - 1].next = NULL;
    EQUALS(0, gds_post_send(near.qp, list, &bad));
    for (int i = 0; i < DEPTH; ++i)
        poll_success(&near.qp->send_cq, i, IBV_WC_RDMA_WRITE);
}

static int is_over(uint32_t word, uint32_t value, gds_wait_cond_flag_t condition)
{
    switch (condition) {
    case GDS_WAIT_COND_AND: return (word & value) != 0;
    case GDS_WAIT_COND_NOR: return ~(word | value) != 0;
    default: return (int32_t)(word - value) >= 0;
    }
}

/* As a kernel: two writes, then a wait. */
static void raw(void)
{
    struct ibv_sge sge;
    gds_send_wr *bad = NULL;
    gds_send_request_t sending[2];
    gds_wait_request_t waiting[2];
    gds_mlx5_send_info_t send[2];
    gds_mlx5_wait_info_t wait[2];
    for (int i = 0; i < 2; ++i) {
        near.memory[i] = 0x31 + i;
        gds_send_wr wr = put(&sge, 200 + i, i, 9000 + i, 1);
        EQUALS(0, gds_prepare_send(near.qp, &wr, &bad, sending + i));
        EQUALS(0, gds_prepare_wait_cq(&near.qp->send_cq, waiting + i, 0));
    }
    memset(send, 0xcc, sizeof send);
    memset(wait, 0xcc, sizeof wait);
    EQUALS(0, gds_mlx5_get_send_info(2, sending, send));
    EQUALS(0, gds_mlx5_get_wait_info(2, waiting, wait));
    for (int i = 0; i < 2; ++i) {
        CHECK(!send[i].membar && send[i].membar_full && send[i].dbrec_ptr && send[i].db_ptr);
        CHECK(wait[i].flag_value == 0 && wait[i].cond != GDS_WAIT_COND_EQ);
        /* The record counts blocks, one per WQE, in network byte order; the doorbell is the start of the WQE: RDMA_WRITE is 8. */
        EQUALS(1, (uint16_t)(be32toh(send[1].dbrec_value) - be32toh(send[0].dbrec_value)));
        EQUALS(8, be64toh(send[i].db_value) >> 32 & 0xff);
        EQUALS(near.qp->qp->qp_num, (uint32_t)be64toh(send[i].db_value) >> 8);
        EQUALS(1, seen(wait[i].flag_ptr));
    }
    CHECK(send[0].dbrec_ptr == send[1].dbrec_ptr && send[0].db_ptr == send[1].db_ptr && wait[0].cqe_ptr != wait[1].cqe_ptr);
    for (int i = 0; i < 2; ++i) {
        store(send[i].dbrec_ptr, send[i].dbrec_value);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        __atomic_store_n(send[i].db_ptr, send[i].db_value, __ATOMIC_RELEASE);
        for (;;) {
            uint32_t word = seen(wait[i].cqe_ptr);
            if (is_over(word, wait[i].cqe_value, wait[i].cond))
                break;
            usleep(50);
        }
        EQUALS(0x31 + i, far.memory[9000 + i]);
        none(&near.qp->send_cq);
        store(wait[i].flag_ptr, wait[i].flag_value);
        poll_success(&near.qp->send_cq, 200 + i, IBV_WC_RDMA_WRITE);
    }
}

/* Rings of 16 wrap hundreds of times: streams send and wait, the CPU polls later. */
static void round_and_round(CUstream stream)
{
    enum { MESSAGES = 3000 };
    CUstream other = new_stream();
    gds_send_wr *bad = NULL;
    for (int i = 0; i < MESSAGES; ++i) {
        uint32_t slot = i % DEPTH * 8;
        post_receive(&far, i, 30000 + slot, 8);
        EQUALS(0, gds_stream_wait_cq(other, &far.qp->recv_cq, 0));
        memcpy(near.memory + slot, &i, sizeof i);
        struct ibv_sge sge = sge_of(&near, slot, 4 + i % 5);
        gds_send_wr wr = work(i, IBV_WR_SEND, &sge, 1);
        EQUALS(0, gds_stream_queue_send(stream, near.qp, &wr, &bad));
        if (i % 3 == 0)
            EQUALS(0, gds_stream_wait_cq(stream, &near.qp->send_cq, 0));
        if (i % 8 == 7 || i == MESSAGES - 1) {
            int first = i - i % 8;
            for (int j = first; j <= i; ++j) {
                poll_success(&near.qp->send_cq, j, IBV_WC_SEND);
                EQUALS(4 + j % 5, poll_success(&far.qp->recv_cq, j, IBV_WC_RECV).byte_len);
                int got;
                memcpy(&got, far.memory + 30000 + j % DEPTH * 8, sizeof got);
                EQUALS(j, got);
            }
        }
    }
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(other));
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(other));
}

/* The maximum number of requests with the maximum of inline data, which is larger than the SGEs. */
static void full_of_inline_data(void)
{
    struct side side = new_side(near_nic());
    gds_qp_init_attr_t attr = attributes();
    struct ibv_sge sge = sge_of(&side, 0, 700);
    gds_send_wr *bad = NULL, wr = work(1, IBV_WR_SEND, &sge, 1);
    gds_send_request_t request;
    EQUALS(0, gds_destroy_qp(side.qp));
    attr.cap.max_inline_data = sge.length;
    side.qp = gds_create_qp(side.pd, side.context, &attr, 0, qp_flags());
    CHECK(side.qp);
    wr.send_flags |= IBV_SEND_INLINE;
    for (int i = 0; i < DEPTH; ++i)
        EQUALS(0, gds_prepare_send(side.qp, &wr, &bad, &request));
    EQUALS(ENOMEM, gds_prepare_send(side.qp, &wr, &bad, &request));
    end_side(&side);
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    near = new_side(near_nic()), far = new_side(remote_nic());
    join(&near, &far, gds_modify_qp);
    for (int by_cpu = 0; by_cpu < 2; ++by_cpu) {
        in_one_list(stream, by_cpu);
        refused(stream, by_cpu);
    }
    many(stream);
    raw();
    round_and_round(stream);
    /* At any position of the rings. */
    many(stream);
    raw();
    end_side(&near);
    end_side(&far);
    full_of_inline_data();
    puts("requests: ok");
    return 0;
}
