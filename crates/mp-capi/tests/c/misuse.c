/*
 * What each wrong call returns, and that it changes nothing.
 */
#include "ranks.h"

static void before_init(void)
{
    mp_request_t request = (mp_request_t)0x1234;
    mp_reg_t reg = (mp_reg_t)0x1234;
    uint32_t word = 5;
    int value = -1;
    EQUALS(EINVAL, mp_query_param(MP_PARAM_VERSION, NULL));
    EQUALS(EINVAL, mp_query_param(MP_NUM_PARAMS, &value));
    EQUALS(EINVAL, mp_query_param((mp_param_t)-1, &value));
    EQUALS(-1, value);
    EQUALS(EINVAL, mp_register(memory, 1, &reg));
    EQUALS(EINVAL, mp_irecv(memory, 1, peer, &reg, &request));
    EQUALS(EINVAL, mp_wait(&request));
    EQUALS(EINVAL, mp_progress_all(1, &request));
    CHECK(request == (mp_request_t)0x1234 && reg == (mp_reg_t)0x1234);
    mp_finalize();
    /* It needs no connection. */
    EQUALS(MP_SUCCESS, mp_wait32(&word, 5, MP_WAIT_EQ));
    EQUALS(EINVAL, mp_wait32(NULL, 5, MP_WAIT_EQ));
    EQUALS(EINVAL, mp_wait32((uint32_t *)(void *)((char *)&word + 1), 5, MP_WAIT_EQ));
}

/* If one rank calls it wrongly, it fails on both, and the next one works. */
static void init(void)
{
    int self = rank, far = 7, negative = -1, none = 0;
    EQUALS(EINVAL, mp_init(MPI_COMM_WORLD, NULL, 1, 0, 0));
    EQUALS(EINVAL, mp_init(MPI_COMM_WORLD, &peer, -1, 0, 0));
    CHECK(mp_init(MPI_COMM_WORLD, rank ? &peer : &self, 1, 0, 0) != MP_SUCCESS);
    CHECK(mp_init(MPI_COMM_WORLD, rank ? &peer : &far, 1, 0, 0) != MP_SUCCESS);
    CHECK(mp_init(MPI_COMM_WORLD, rank ? &peer : &negative, 1, 0, 0) != MP_SUCCESS);
    CHECK(mp_init(MPI_COMM_WORLD, rank ? &peer : &none, rank, 0, 0) != MP_SUCCESS);
    CHECK(mp_init(MPI_COMM_WORLD, &peer, 1, rank ? MP_INIT_DEFAULT : 9, 0) != MP_SUCCESS);
    CHECK(mp_init(MPI_COMM_WORLD, &peer, 1, 0, rank - 1) != MP_SUCCESS);
}

static void registration(void)
{
    mp_reg_t reg = (mp_reg_t)0x1234, freed;
    EQUALS(EALREADY, mp_init(MPI_COMM_WORLD, &peer, 1, 0, 0));
    EQUALS(EINVAL, mp_register(NULL, 4096, &reg));
    EQUALS(EINVAL, mp_register(memory, 0, &reg));
    EQUALS(EINVAL, mp_register(memory, SIZE_MAX, &reg));
    EQUALS(EINVAL, mp_register(memory, 4096, NULL));
    EQUALS(EINVAL, mp_register(memory, 4096, (mp_reg_t *)(void *)(memory + 1)));
    EQUALS(EINVAL, mp_deregister(NULL));
    EQUALS(EINVAL, mp_deregister(&reg));
    EQUALS(MP_SUCCESS, mp_register(memory, 4096, &reg));
    freed = reg;
    EQUALS(MP_SUCCESS, mp_deregister(&reg));
    EQUALS(EINVAL, mp_deregister(&freed));
    mp_request_t request;
    EQUALS(EINVAL, mp_isend(memory, 1, peer, &freed, &request));
}

static void messages(CUstream stream)
{
    mp_request_t request = NULL, zero = NULL;
    struct iovec blocks[31], outside = {memory + BYTES - 10, 11};
    EQUALS(EINVAL, mp_irecv(memory, 1, rank, &region, &request));
    EQUALS(EINVAL, mp_irecv(memory, 1, 2, &region, &request));
    EQUALS(EINVAL, mp_irecv(memory, 1, -1, &region, &request));
    EQUALS(EINVAL, mp_irecv(memory, -1, peer, &region, &request));
    EQUALS(EINVAL, mp_irecv(memory, BYTES + 1, peer, &region, &request));
    EQUALS(EINVAL, mp_irecv(memory - 1, 1, peer, &region, &request));
    EQUALS(EINVAL, mp_irecv(NULL, 1, peer, &region, &request));
    EQUALS(EINVAL, mp_irecv(memory, 1, peer, NULL, &request));
    EQUALS(EINVAL, mp_irecv(memory, 1, peer, &region, NULL));
    EQUALS(EINVAL, mp_isend(memory + BYTES, 1, peer, &region, &request));
    EQUALS(EINVAL, mp_isend_on_stream(memory + BYTES, 1, peer, &region, &request, stream));
    EQUALS(EINVAL, mp_send_on_stream(memory, 1, rank, &region, &request, stream));
    EQUALS(EINVAL, mp_send_prepare(memory, 1, peer, NULL, &request));
    for (int i = 0; i < 31; ++i)
        blocks[i] = (struct iovec){memory, 1};
    EQUALS(EINVAL, mp_isendv(blocks, 31, peer, &region, &request));
    EQUALS(EINVAL, mp_isendv(blocks, -1, peer, &region, &request));
    EQUALS(EINVAL, mp_isendv(NULL, 1, peer, &region, &request));
    EQUALS(EINVAL, mp_irecvv(&outside, 1, peer, &region, &request));
    EQUALS(EINVAL, mp_sendv_prepare(blocks, 31, peer, &region, &request));
    CHECK(request == NULL);
    EQUALS(EINVAL, mp_wait(NULL));
    EQUALS(EINVAL, mp_wait(&zero));
    EQUALS(EINVAL, mp_wait_all(1, NULL));
    EQUALS(MP_SUCCESS, mp_wait_all(0, NULL));
    EQUALS(0, mp_progress_all(1, &zero));
    EQUALS(EINVAL, mp_wait_on_stream(&zero, stream));
    EQUALS(EINVAL, mp_isend_post_on_stream(&zero, stream));

    /* Prepared requests are posted in order, once, and only after that waited for. */
    mp_request_t sends[3], receives[2];
    for (int i = 0; i < 2; ++i)
        EQUALS(MP_SUCCESS, mp_irecv(memory + 4096, 8, peer, &region, &receives[i]));
    EQUALS(EINVAL, mp_isend_post_on_stream(&receives[0], stream));
    barrier();
    for (int i = 0; i < 2; ++i)
        EQUALS(MP_SUCCESS, mp_send_prepare(memory, 8, peer, &region, &sends[i]));
    EQUALS(EINVAL, mp_isend_post_on_stream(&sends[1], stream));
    EQUALS(EINVAL, mp_wait_on_stream(&sends[0], stream));
    EQUALS(EINVAL, mp_wait(&sends[0]));
    EQUALS(MP_SUCCESS, mp_isend_post_all_on_stream(2, sends, stream));
    EQUALS(EINVAL, mp_isend_post_on_stream(&sends[0], stream));
    EQUALS(MP_SUCCESS, mp_wait_all_on_stream(2, sends, stream));
    EQUALS(EINVAL, mp_wait_on_stream(&sends[0], stream));
    /* All are freed, although one is unknown. */
    sends[2] = sends[1];
    EQUALS(EINVAL, mp_wait_all(3, sends));
    EQUALS(MP_SUCCESS, mp_wait_all(2, receives));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
}

static void windows(CUstream stream)
{
    mp_window_t window = NULL, none = (mp_window_t)0x1234;
    mp_request_t request;
    EQUALS(EINVAL, mp_window_create(memory, 4096, NULL));
    EQUALS(MP_SUCCESS, mp_window_create(memory + 4096 * rank, 4096 + 4096 * (size_t)rank, &window));
    EQUALS(EINVAL, mp_window_destroy(&none));
    const size_t length = rank ? 4096 : 8192;
    EQUALS(EINVAL, mp_iput(memory, 16, &region, peer, length - 15, &window, &request, 0));
    EQUALS(EINVAL, mp_iput(memory, 16, &region, peer, SIZE_MAX, &window, &request, 0));
    EQUALS(EINVAL, mp_iget(memory, 16, &region, peer, length + 1, &window, &request));
    EQUALS(EINVAL, mp_iget(memory, 16, &region, rank, 0, &window, &request));
    EQUALS(EINVAL, mp_iget(memory, 16, &region, peer, 0, &none, &request));
    EQUALS(EINVAL, mp_iget(memory, 16, &region, peer, 0, NULL, &request));
    EQUALS(EINVAL, mp_iput_on_stream(memory, 16, &region, peer, 0, &window, &request, 4, stream));
    EQUALS(EINVAL, mp_put_prepare(memory, 16, NULL, peer, 0, &window, &request, 0));
    barrier();
    EQUALS(MP_SUCCESS, mp_iput(memory + 32768, 16, &region, peer, length - 16, &window, &request, 0));
    EQUALS(MP_SUCCESS, mp_wait(&request));
    barrier();
    EQUALS(MP_SUCCESS, mp_window_destroy(&window));
}

static void queues(void)
{
    mp_desc_queue_t queue, none = NULL;
    mp_request_t unknown = (mp_request_t)0x1234;
    uint32_t word = 0;
    EQUALS(EINVAL, mp_desc_queue_alloc(NULL));
    EQUALS(MP_SUCCESS, mp_desc_queue_alloc(&queue));
    EQUALS(EINVAL, mp_desc_queue_add_send(&queue, &unknown));
    EQUALS(EINVAL, mp_desc_queue_add_send(&none, &unknown));
    EQUALS(EINVAL, mp_desc_queue_add_wait_recv(&queue, NULL));
    EQUALS(EINVAL, mp_desc_queue_add_wait_value32(&queue, NULL, 1, MP_WAIT_GEQ));
    EQUALS(EINVAL, mp_desc_queue_add_wait_value32(&queue, &word, 1, 4));
    EQUALS(EINVAL, mp_desc_queue_add_write_value32(&queue, NULL, 1));
    EQUALS(MP_SUCCESS, mp_desc_queue_free(&queue));
}

int main(void)
{
    mp_request_t open[3];
    start();
    EQUALS(2, size);
    CHECK(!posix_memalign((void **)&memory, 4096, BYTES));
    memset(memory, 0, BYTES);
    before_init();
    init();
    EQUALS(MP_SUCCESS, mp_init(MPI_COMM_WORLD, &peer, 1, 0, 0));
    EQUALS(MP_SUCCESS, mp_register(memory, BYTES, &region));
    CUstream stream = new_stream();
    registration();
    messages(stream);
    windows(stream);
    queues();
    /* mp_finalize ends what is open, and releases a stream. */
    EQUALS(MP_SUCCESS, mp_irecv(memory, 8, peer, &region, &open[0]));
    EQUALS(MP_SUCCESS, mp_irecv(memory, 8, peer, &region, &open[1]));
    EQUALS(MP_SUCCESS, mp_send_prepare(memory, 8, peer, &region, &open[2]));
    EQUALS(MP_SUCCESS, mp_wait_on_stream(&open[0], stream));
    mp_reg_t left = region;
    mp_finalize();
    end(stream);
    EQUALS(EINVAL, mp_wait(&open[0]));
    EQUALS(EINVAL, mp_deregister(&left));
    mp_finalize();
    /* It can begin again. */
    EQUALS(MP_SUCCESS, mp_init(MPI_COMM_WORLD, &peer, 1, MP_INIT_DEFAULT, 0));
    EQUALS(EINVAL, mp_deregister(&left));
    EQUALS(MP_SUCCESS, mp_register(memory, BYTES, &region));
    finish("misuse");
    return 0;
}
