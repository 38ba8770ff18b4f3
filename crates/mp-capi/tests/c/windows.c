/*
 * Windows: puts and gets by the CPU and by streams; waits for words; descriptor queues.
 */
#include "ranks.h"

static mp_window_t window;

static uint32_t *word(size_t offset) { return (uint32_t *)(void *)(memory + offset); }

/* Half of the memory is the window. */
enum { HALF = BYTES / 2 };

static void puts_and_gets(CUstream stream)
{
    mp_request_t requests[4];
    fill(0, 4000, 20 + (unsigned)rank);
    memset(memory + HALF, 0, HALF);
    barrier();
    EQUALS(MP_SUCCESS, mp_iput(memory, 1000, &region, peer, 100, &window, &requests[0], 0));
    EQUALS(MP_SUCCESS, mp_iput_on_stream(memory, 1000, &region, peer, 1200, &window, &requests[1], 0, stream));
    EQUALS(MP_SUCCESS, mp_put_prepare(memory, 1000, &region, peer, 2300, &window, &requests[2], 0));
    EQUALS(MP_SUCCESS, mp_put_prepare(memory, 1000, &region, peer, 3400, &window, &requests[3], 0));
    EQUALS(MP_SUCCESS, mp_iput_post_on_stream(&requests[2], stream));
    EQUALS(MP_SUCCESS, mp_iput_post_all_on_stream(1, &requests[3], stream));
    EQUALS(MP_SUCCESS, mp_wait_all(4, requests));
    barrier();
    for (size_t at = 100; at <= 3400; at += 1100)
        CHECK(has(HALF + at, 1000, 20 + (unsigned)peer) && is_zero(HALF + at + 1000, 100));
    CHECK(is_zero(HALF, 100));
    EQUALS(MP_SUCCESS, mp_iget(memory + 5000, 1000, &region, peer, 1200, &window, &requests[0]));
    EQUALS(MP_SUCCESS, mp_iget_on_stream(memory + 7000, 1000, &region, peer, 100, &window, &requests[1], stream));
    EQUALS(MP_SUCCESS, mp_wait_on_stream(&requests[1], stream));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    CHECK(has(7000, 1000, 20 + (unsigned)rank));
    EQUALS(MP_SUCCESS, mp_wait_all(2, requests));
    CHECK(has(5000, 1000, 20 + (unsigned)rank));
    barrier();
}

/* Inline data is copied at once; a put without a completion cannot be waited for, and a later one shows that it has ended. */
static void flags(CUstream stream)
{
    mp_request_t inlined, unwaited, last;
    memset(memory + HALF, 0, HALF);
    barrier();
    fill(0, 256, 31);
    EQUALS(MP_SUCCESS, mp_iput_on_stream(memory, 256, &region, peer, 0, &window, &inlined, MP_PUT_INLINE, stream));
    memset(memory, 0xee, 256);
    EQUALS(EINVAL, mp_iput(memory, 257, &region, peer, 0, &window, &last, MP_PUT_INLINE));
    for (size_t i = 0; i < 600; ++i) {
        *word(0) = (uint32_t)i;
        EQUALS(MP_SUCCESS, mp_iput(memory, 4, &region, peer, 1024, &window, &unwaited, MP_PUT_INLINE | MP_PUT_NOWAIT));
        EQUALS(EINVAL, mp_wait(&unwaited));
        if (i % 100 == 0)
            EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        if (i % 300 == 0)
            usleep(20000);
    }
    EQUALS(MP_SUCCESS, mp_put_prepare(memory, 4, &region, peer, 1028, &window, &unwaited, MP_PUT_INLINE | MP_PUT_NOWAIT));
    EQUALS(MP_SUCCESS, mp_iput_post_on_stream(&unwaited, stream));
    EQUALS(EINVAL, mp_iput_post_on_stream(&unwaited, stream));
    EQUALS(MP_SUCCESS, mp_iput(memory, 4, &region, peer, 2048, &window, &last, 0));
    EQUALS(MP_SUCCESS, mp_wait(&last));
    EQUALS(MP_SUCCESS, mp_wait(&inlined));
    barrier();
    CHECK(has(HALF, 256, 31));
    CHECK(*word(HALF + 1024) == 599 && *word(HALF + 1028) == 599 && *word(HALF + 2048) == 599);
    barrier();
}

/* A kernel's or peer's word: the CPU and streams wait by the same conditions. */
static void words(CUstream stream)
{
    const struct {
        int flags;
        uint32_t value, too_early, enough;
    } cases[] = {
        {MP_WAIT_GEQ, 5, 4, 6},
        {MP_WAIT_GEQ, 2, 0xfffffffe, 3},
        {MP_WAIT_EQ, 5, 6, 5},
        {MP_WAIT_EQ, 0x80000000, 0x80000001, 0x80000000},
        {MP_WAIT_AND, 6, 9, 2},
    };
    uint32_t *flag = word(0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        __atomic_store_n(flag, cases[i].too_early, __ATOMIC_RELEASE);
        EQUALS(MP_SUCCESS, mp_wait32_on_stream(flag, cases[i].value, cases[i].flags, stream));
        usleep(30000);
        EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
        __atomic_store_n(flag, cases[i].enough, __ATOMIC_RELEASE);
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        EQUALS(MP_SUCCESS, mp_wait32(flag, cases[i].value, cases[i].flags));
    }
    *flag = 7;
    EQUALS(MP_SUCCESS, mp_wait_dword_geq_on_stream(flag, 7, stream));
    EQUALS(MP_SUCCESS, mp_wait_dword_eq_on_stream(flag, 7, stream));
    EQUALS(EINVAL, mp_wait32_on_stream(flag, 1, 3, stream));
    EQUALS(EINVAL, mp_wait32(flag, 1, 7));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
}

/* One batch: waits for a word and a receive, sends and puts, waits for both, and writes a word. */
static void queues(CUstream stream)
{
    mp_desc_queue_t queue, old;
    mp_request_t received, sent, put;
    uint32_t *go = word(0), *done = word(4);
    *go = *done = 0;
    fill(8, 3000, 40 + (unsigned)rank);
    memset(memory + HALF, 0, HALF);
    EQUALS(MP_SUCCESS, mp_desc_queue_alloc(&queue));
    old = queue;
    EQUALS(MP_SUCCESS, mp_irecv(memory + HALF + 4096, 3000, peer, &region, &received));
    barrier();
    EQUALS(MP_SUCCESS, mp_send_prepare(memory + 8, 3000, peer, &region, &sent));
    EQUALS(MP_SUCCESS, mp_put_prepare(memory + 8, 2000, &region, peer, 0, &window, &put, 0));
    EQUALS(MP_SUCCESS, mp_desc_queue_add_wait_value32(&queue, go, 1, MP_WAIT_GEQ));
    EQUALS(MP_SUCCESS, mp_desc_queue_add_send(&queue, &sent));
    EQUALS(MP_SUCCESS, mp_desc_queue_add_send(&queue, &put));
    EQUALS(MP_SUCCESS, mp_desc_queue_add_wait_recv(&queue, &received));
    EQUALS(EINVAL, mp_desc_queue_add_wait_recv(&queue, &sent));
    EQUALS(EINVAL, mp_desc_queue_add_wait_send(&queue, &received));
    EQUALS(MP_SUCCESS, mp_desc_queue_add_wait_send(&queue, &sent));
    EQUALS(MP_SUCCESS, mp_desc_queue_add_wait_send(&queue, &put));
    EQUALS(MP_SUCCESS, mp_desc_queue_add_write_value32(&queue, done, 77));
    EQUALS(EBUSY, mp_desc_queue_free(&queue));
    EQUALS(EINVAL, mp_desc_queue_post_on_stream(stream, &queue, 1));
    EQUALS(MP_SUCCESS, mp_desc_queue_post_on_stream(stream, &queue, 0));
    usleep(30000);
    CHECK(*done == 0 && mp_progress_all(1, &sent) == 0);
    __atomic_store_n(go, 1, __ATOMIC_RELEASE);
    EQUALS(MP_SUCCESS, mp_wait32(done, 77, MP_WAIT_EQ));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    CHECK(has(HALF + 4096, 3000, 40 + (unsigned)peer));
    EQUALS(MP_SUCCESS, mp_wait(&received));
    EQUALS(MP_SUCCESS, mp_wait(&sent));
    EQUALS(MP_SUCCESS, mp_wait(&put));
    barrier();
    CHECK(has(HALF, 2000, 40 + (unsigned)peer));
    EQUALS(MP_SUCCESS, mp_desc_queue_free(&queue));
    CHECK(queue == NULL);
    EQUALS(EINVAL, mp_desc_queue_free(&old));
    EQUALS(EINVAL, mp_desc_queue_add_write_value32(&old, done, 1));
    barrier();
}

int main(void)
{
    begin();
    EQUALS(MP_SUCCESS, mp_window_create(memory + HALF, HALF, &window));
    CUstream stream = new_stream();
    puts_and_gets(stream);
    flags(stream);
    words(stream);
    queues(stream);
    end(stream);
    mp_window_t freed = window;
    EQUALS(MP_SUCCESS, mp_window_destroy(&window));
    EQUALS(EINVAL, mp_window_destroy(&freed));
    finish("windows");
    return 0;
}
