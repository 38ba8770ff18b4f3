/*
 * Messages by the CPU and by streams, whole and in blocks, in one step and in two.
 */
#include "ranks.h"

/* How a rank starts a send of `length` bytes. */
typedef void send_t(void *buf, int length, mp_request_t *req, CUstream stream);

static void by_cpu(void *buf, int length, mp_request_t *req, CUstream stream)
{
    (void)stream;
    EQUALS(MP_SUCCESS, mp_isend(buf, length, peer, &region, req));
}

static void by_stream(void *buf, int length, mp_request_t *req, CUstream stream)
{
    EQUALS(MP_SUCCESS, mp_isend_on_stream(buf, length, peer, &region, req, stream));
}

static void by_stream_waiting(void *buf, int length, mp_request_t *req, CUstream stream)
{
    EQUALS(MP_SUCCESS, mp_send_on_stream(buf, length, peer, &region, req, stream));
}

static void prepared(void *buf, int length, mp_request_t *req, CUstream stream)
{
    EQUALS(MP_SUCCESS, mp_send_prepare(buf, length, peer, &region, req));
    EQUALS(MP_SUCCESS, mp_isend_post_on_stream(req, stream));
}

static void prepared_waiting(void *buf, int length, mp_request_t *req, CUstream stream)
{
    EQUALS(MP_SUCCESS, mp_send_prepare(buf, length, peer, &region, req));
    EQUALS(MP_SUCCESS, mp_send_post_on_stream(req, stream));
}

/* Rank 0 sends, rank 1 answers; every byte is checked. */
static void ping_pong(send_t *send, int length, unsigned seed, CUstream stream)
{
    mp_request_t sent, received;
    memset(memory + 32768, 0, 32768);
    fill(0, (size_t)length, seed + (unsigned)rank);
    EQUALS(MP_SUCCESS, mp_irecv(memory + 32768, length, peer, &region, &received));
    barrier();
    if (rank == 1)
        EQUALS(MP_SUCCESS, mp_wait(&received));
    send(memory, length, &sent, stream);
    if (rank == 0)
        EQUALS(MP_SUCCESS, mp_wait(&received));
    EQUALS(MP_SUCCESS, mp_wait(&sent));
    CHECK(has(32768, (size_t)length, seed + (unsigned)peer) && is_zero(32768 + (size_t)length, 32768 - (size_t)length));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    /* Freed. */
    EQUALS(EINVAL, mp_wait(&sent));
    EQUALS(EINVAL, mp_wait(&received));
    barrier();
}

/* 30 blocks of 1 to 30 bytes, received into 3, with each way to send them. */
static void blocks(int way, CUstream stream)
{
    struct iovec from[30], to[3];
    mp_request_t requests[2];
    size_t at = 0, total = 0;
    memset(memory + 32768, 0, 32768);
    fill(0, 8192, 5);
    for (int i = 0; i < 30; ++i) {
        from[i].iov_base = memory + at;
        from[i].iov_len = (size_t)i + 1;
        at += 200;
        total += (size_t)i + 1;
    }
    for (int i = 0; i < 3; ++i) {
        to[i].iov_base = memory + 32768 + 1000 * i;
        to[i].iov_len = 200;
    }
    EQUALS(MP_SUCCESS, mp_irecvv(to, 3, peer, &region, &requests[0]));
    barrier();
    switch (way) {
    case 0:
        EQUALS(MP_SUCCESS, mp_isendv(from, 30, peer, &region, &requests[1]));
        break;
    case 1:
        EQUALS(MP_SUCCESS, mp_isendv_on_stream(from, 30, peer, &region, &requests[1], stream));
        break;
    default:
        EQUALS(MP_SUCCESS, mp_sendv_prepare(from, 30, peer, &region, &requests[1]));
        EQUALS(MP_SUCCESS, mp_isend_post_on_stream(&requests[1], stream));
    }
    EQUALS(MP_SUCCESS, mp_wait_all(2, requests));
    EQUALS(465, total);
    total = 0;
    for (size_t i = 0; i < 30; ++i)
        for (size_t j = 0; j <= i; ++j, ++total)
            EQUALS(memory[200 * i + j], memory[32768 + 1000 * (total / 200) + total % 200]);
    CHECK(is_zero(32768 + 200, 800) && is_zero(32768 + 1200, 800) && is_zero(32768 + 2065, 1000));
    barrier();
}

/* The stream orders a whole exchange; the CPU only posts it. */
static void exchange_by_stream(CUstream stream)
{
    enum { ROUNDS = 20 };
    mp_request_t sent[ROUNDS], received[ROUNDS];
    memset(memory + 32768, 0, 32768);
    for (int i = 0; i < ROUNDS; ++i) {
        fill(1000 * (size_t)i, 1000, (unsigned)(2 * i + rank));
        EQUALS(MP_SUCCESS, mp_irecv_on_stream(memory + 32768 + 1000 * i, 1000, peer, &region, &received[i], stream));
    }
    barrier();
    for (int i = 0; i < ROUNDS; ++i) {
        if (rank == 1)
            EQUALS(MP_SUCCESS, mp_wait_on_stream(&received[i], stream));
        EQUALS(MP_SUCCESS, mp_isend_on_stream(memory + 1000 * i, 1000, peer, &region, &sent[i], stream));
        if (rank == 0)
            EQUALS(MP_SUCCESS, mp_wait_on_stream(&received[i], stream));
    }
    EQUALS(MP_SUCCESS, mp_wait_all_on_stream(ROUNDS, sent, stream));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    for (int i = 0; i < ROUNDS; ++i)
        CHECK(has(32768 + 1000 * (size_t)i, 1000, (unsigned)(2 * i + peer)));
    EQUALS(ROUNDS, mp_progress_all(ROUNDS, sent));
    EQUALS(MP_SUCCESS, mp_wait_all(ROUNDS, sent));
    EQUALS(MP_SUCCESS, mp_wait_all(ROUNDS, received));
    EQUALS(ROUNDS, mp_progress_all(ROUNDS, received));
    barrier();
}

/* Several prepared requests in one post. */
static void post_all(int (*post)(uint32_t, mp_request_t *, cudaStream_t), CUstream stream)
{
    mp_request_t sent[10], received[10];
    memset(memory + 32768, 0, 32768);
    for (int i = 0; i < 10; ++i) {
        fill(500 * (size_t)i, 500, (unsigned)(i + rank));
        EQUALS(MP_SUCCESS, mp_irecv(memory + 32768 + 500 * i, 500, peer, &region, &received[i]));
        EQUALS(MP_SUCCESS, mp_send_prepare(memory + 500 * i, 500, peer, &region, &sent[i]));
    }
    CHECK(mp_progress_all(10, sent) == 0 && mp_progress_all(10, received) == 0);
    barrier();
    /* Not posted yet: it stays. */
    EQUALS(EINVAL, mp_wait(&sent[3]));
    EQUALS(MP_SUCCESS, post(10, sent, stream));
    EQUALS(MP_SUCCESS, mp_wait_all(10, received));
    EQUALS(MP_SUCCESS, mp_wait_all(10, sent));
    for (int i = 0; i < 10; ++i)
        CHECK(has(32768 + 500 * (size_t)i, 500, (unsigned)(i + peer)));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    barrier();
}

/* GPU memory as both ends of a message. */
static void gpu_memory(void)
{
    CUdeviceptr gpu;
    mp_reg_t own;
    mp_request_t requests[2];
    EQUALS(CUDA_SUCCESS, cuMemAlloc(&gpu, BYTES));
    EQUALS(MP_SUCCESS, mp_register((void *)gpu, BYTES, &own));
    CUstream stream = new_stream();
    fill(0, 5000, 11);
    EQUALS(CUDA_SUCCESS, cuMemcpyHtoDAsync(gpu + 100, memory, 5000, stream));
    EQUALS(MP_SUCCESS, mp_irecv((char *)gpu + 20000, 5000, peer, &own, &requests[0]));
    barrier();
    EQUALS(MP_SUCCESS, mp_isend_on_stream((char *)gpu + 100, 5000, peer, &own, &requests[1], stream));
    EQUALS(MP_SUCCESS, mp_wait_all_on_stream(2, requests, stream));
    EQUALS(CUDA_SUCCESS, cuMemcpyDtoHAsync(memory + 32768, gpu + 20000, 5000, stream));
    end(stream);
    EQUALS(MP_SUCCESS, mp_wait_all(2, requests));
    CHECK(has(32768, 5000, 11));
    EQUALS(MP_SUCCESS, mp_deregister(&own));
    EQUALS(CUDA_SUCCESS, cuMemFree(gpu));
}

int main(void)
{
    int version = 0;
    EQUALS(MP_SUCCESS, mp_query_param(MP_PARAM_VERSION, &version));
    CHECK(version == MP_API_VERSION && MP_API_VERSION_COMPATIBLE(version));
    begin();
    CUstream stream = new_stream();
    send_t *sends[] = {by_cpu, by_stream, by_stream_waiting, prepared, prepared_waiting};
    const int lengths[] = {0, 1, 255, 4096, 32768};
    for (size_t i = 0; i < sizeof sends / sizeof *sends; ++i)
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; ++j)
            ping_pong(sends[i], lengths[j], (unsigned)(i * 10 + j), stream);
    for (int way = 0; way < 3; ++way)
        blocks(way, stream);
    exchange_by_stream(stream);
    post_all(mp_send_post_all_on_stream, stream);
    post_all(mp_isend_post_all_on_stream, stream);
    gpu_memory();
    end(stream);
    finish("messages");
    return 0;
}
