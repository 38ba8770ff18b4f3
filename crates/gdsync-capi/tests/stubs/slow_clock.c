/*
 * A clock that is slow, for libgdsync's test programs on a simulated CUDA: they give a GPU 1 ms to react, and a thread in a GPU's
 * place may have to wait longer than that for a processor. Never linked into what runs on a GPU.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How many times longer everything may take. */
#define SLOWNESS 1000

int clock_gettime(clockid_t clock, struct timespec *now)
{
    const long second = 1000000000;
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_MONOTONIC) {
        const long long slow = ((long long)now->tv_sec * second + now->tv_nsec) / SLOWNESS;
        now->tv_sec = slow / second;
        now->tv_nsec = slow % second;
    }
    return failed;
}
