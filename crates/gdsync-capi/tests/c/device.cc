/*
 * gdsync/device.cuh by a C++ compiler that plays CUDA's: what its functions answer, with a clock that the test sets.
 */
#include <cstdio>
#include <cstdlib>

#define __CUDACC__
#define __host__
#define __device__

static long long ticks, step;
static long long clock64() { return ticks += step; }
static void __threadfence_block() {}

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

int main()
{
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
