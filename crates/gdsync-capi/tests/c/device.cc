/*
 * gdsync/device.cuh by a C++ compiler that plays CUDA's: what its functions answer, with a clock that the test sets, and the bytes of a WQE,
 * which are those that rdma-core's mlx5dv.h names.
 */
#include <cstdio>
#include <cstdlib>

#define __CUDACC__
#define __host__
#define __device__

static long long ticks, step;
static long long clock64() { return ticks += step; }
static void __threadfence_block() {}
static void __threadfence_system() {}

#include <gdsync.h>
#include <gdsync/device.cuh>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                   \
            std::exit(1);                                                                                                  \
        }                                                                                                                  \
    } while (0)

using namespace gdsync;

/* What waiting for a value answers, and after how many clocks it gave up. */
template <typename S> static int answer(S sem, wait_cond_t condition)
{
    ticks = 0x7fffffff0;
    step = 1 << 20;
    const int answered = device::wait(sem, condition);
    const long long waited = ticks - 0x7fffffff0;
    /* 2^32 clocks at least, and not many more looks than that. */
    CHECK(answered == 0 || answered == ERROR_INVALID || (waited >= 1LL << 32 && waited < (1LL << 32) + 4 * step));
    return answered;
}

template <typename S> static int of(typename S::T word, typename S::T value, wait_cond_t condition)
{
    S sem;
    sem.ptr = &word;
    sem.value = value;
    return answer(sem, condition);
}

static int of32(uint32_t word, uint32_t value, wait_cond_t condition)
{
    sem32 direct = {word, value};
    const int answered = of<isem32>(word, value, condition);
    CHECK(answer(direct, condition) == answered);
    return answered;
}

/* A queue of four blocks and four CQEs, from block 0x1fffe on: its counters wrap. */
static void send_queues()
{
    alignas(64) static unsigned char ring[4 * 64], cqes[4 * 64];
    uint32_t record = 0, cqe_record = 0, syndrome = 0;
    uint64_t doorbell = 0;
    for (unsigned i = 0; i < sizeof cqes; i++)
        cqes[i] = 0xf1;
    send_queue queue = {ring, 4, 0xabcdef, &record, &doorbell, cqes, 4, &cqe_record, 0x1fffe, 0x1fffe};
    const send_range local = {0x1122334455667788, 0x01020304, 0x40};
    step = 1;
    CHECK(device::poll(queue, 100, NULL) == ERROR_TIMEOUT);
    CHECK(device::fits(queue, 4) && !device::fits(queue, 5));
    CHECK(device::post_write(queue, local, 0x99aabbccddeeff00, 0x05060708) == 0);
    const unsigned char expected[48] = {
        0, 0xff, 0xfe, 8, 0xab, 0xcd, 0xef, 3, 0, 0, 0, 8, 0, 0, 0, 0,
        0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0, 5, 6, 7, 8, 0, 0, 0, 0,
        0, 0, 0, 0x40, 1, 2, 3, 4, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
    };
    for (int i = 0; i < 48; i++)
        CHECK(ring[2 * 64 + i] == expected[i]);
    const unsigned char *bytes = (const unsigned char *)&record;
    CHECK(bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 0xff && bytes[3] == 0xff);
    bytes = (const unsigned char *)&doorbell;
    for (int i = 0; i < 8; i++)
        CHECK(bytes[i] == expected[i]);
    /* A batch of two: one doorbell for the last. */
    device::build_write(queue, 0, local, 0, 0);
    device::build_write(queue, 1, local, 0, 0);
    device::ring(queue, 2);
    bytes = (const unsigned char *)&doorbell;
    CHECK(bytes[1] == 0 && bytes[2] == 0 && ring[3 * 64 + 1] == 0xff && ring[3 * 64 + 2] == 0xff);
    CHECK(record == 0x01000000 && queue.posted == 0x20001);
    /* CQE 0x1fffe is in slot 2 of a pass whose owner bit is 1. */
    cqes[2 * 64 + 63] = 0x00;
    CHECK(device::poll(queue, 100, NULL) == ERROR_TIMEOUT);
    cqes[2 * 64 + 63] = 0x01;
    CHECK(device::poll(queue, 100, NULL) == 0 && queue.polled == 0x1ffff && cqe_record == 0xffff0100);
    cqes[3 * 64 + 63] = 0xd1;
    cqes[3 * 64 + 55] = 0x13;
    CHECK(device::poll(queue, 100, &syndrome) == ERROR_COMPLETION && syndrome == 0x13 && queue.polled == 0x1ffff);
    CHECK(device::post_write(queue, local, 0, 0) == 0 && device::post_write(queue, local, 0, 0) == 0);
    CHECK(device::post_write(queue, local, 0, 0) == ERROR_TIMEOUT);
}

int main()
{
    send_queues();
    CHECK(ERROR_TIMEOUT == 11 && ERROR_INVALID == 22 && large_timeout == 4294967296LL);
    CHECK(sizeof(sem32) == 8 && sizeof(isem32) == 16 && sizeof(isem64) == 16);
    CHECK(of32(5, 5, GDS_WAIT_COND_EQ) == 0 && of32(5, 6, GDS_WAIT_COND_EQ) == 11);
    CHECK(of32(6, 5, GDS_WAIT_COND_GEQ) == 0 && of32(4, 5, GDS_WAIT_COND_GEQ) == 11);
    /* Cyclic. */
    CHECK(of32(1, 0xffffffff, GDS_WAIT_COND_GEQ) == 0 && of32(0xffffffff, 1, GDS_WAIT_COND_GEQ) == 11);
    CHECK(of32(6, 2, GDS_WAIT_COND_AND) == 0 && of32(6, 1, GDS_WAIT_COND_AND) == 11);
    CHECK(of32(1, 0xfffffffd, GDS_WAIT_COND_NOR) == 0 && of32(2, 0xfffffffd, GDS_WAIT_COND_NOR) == 11);
    CHECK(of32(1, 1, (wait_cond_t)4) == 22);
    CHECK(of<isem64>(1, ~0ULL, GDS_WAIT_COND_GEQ) == 0 && of<isem64>(0, 0xffffffff, GDS_WAIT_COND_GEQ) == 11);
    CHECK(of<isem64>(1ULL << 40, 1ULL << 40, GDS_WAIT_COND_EQ) == 0 && of<isem64>(1, 1ULL << 40 | 1, GDS_WAIT_COND_EQ) == 11);
    CHECK(of<isem64>(1ULL << 40, 3ULL << 40, GDS_WAIT_COND_AND) == 0);
    CHECK(of<isem64>(0xffffffff, 0, GDS_WAIT_COND_NOR) == 0);
    CHECK(of<isem64>(0xffffffff, 0xffffffff00000000, GDS_WAIT_COND_NOR) == 11);
    isem32 none;
    CHECK(none.ptr == NULL && none.value == 0 && answer(none, GDS_WAIT_COND_EQ) == 22);
    device::release(none);
    uint32_t word = 0;
    none.ptr = &word;
    none.value = 9;
    device::release(none);
    CHECK(word == 9);
    return 0;
}
