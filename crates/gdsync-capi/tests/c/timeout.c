/*
 * A CPU wait for a word that is never written fails with ETIMEDOUT after GDS_CPU_WAIT_TIMEOUT_MS (run with 400), uses little CPU time, and
 * later descriptors are not executed. Writing the word ends the wait.
 */
#include "check.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    EQUALS(0, clock_gettime(clock, &now));
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void *write_soon(void *word)
{
    usleep(100000);
    store(word, 5);
    return NULL;
}

int main(void)
{
    start();
    /* Ends a program that hangs. */
    alarm(60);
    uint32_t *words = aligned_alloc(4096, 4096);
    memset(words, 0, 4096);
    gds_descriptor_t list[] = {
        write_word(words + 1, 1, GDS_MEMORY_HOST),
        wait_for(words, 5, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST),
        write_word(words + 1, 2, GDS_MEMORY_HOST),
    };
    double start_time = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_THREAD_CPUTIME_ID);
    EQUALS(ETIMEDOUT, gds_post_descriptors(3, list, 0));
    double waited = seconds(CLOCK_MONOTONIC) - start_time;
    used = seconds(CLOCK_THREAD_CPUTIME_ID) - used;
    CHECK(waited >= 0.4 && waited < 30);
    CHECK(used < waited / 4);
    EQUALS(1, seen(words + 1));

    /* The same list, with the word written before the timeout. */
    pthread_t other;
    EQUALS(0, pthread_create(&other, NULL, write_soon, words));
    EQUALS(0, gds_post_descriptors(3, list, 0));
    EQUALS(0, pthread_join(other, NULL));
    EQUALS(2, seen(words + 1));
    free(words);
    puts("timeout: ok");
    return 0;
}
