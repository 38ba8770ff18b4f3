/*
 * Children forked while other threads log, copy or open a session: the library works in each, and none waits for a lock
 * of a thread that it does not have.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define BYTES (2 * GPU_PAGE_SIZE)

static gdr_t g;
static unsigned long aligned;
static atomic_int over;

/* Logs messages in a loop: the session is not open. */
static void *complain(void *unused)
{
    while (!atomic_load(&over))
        EQUALS(EINVAL, gdr_close((gdr_t)&over));
    return unused;
}

static void *work(void *unused)
{
    static char host[1 << 20];
    while (!atomic_load(&over)) {
        gdr_t mine = gdr_open();
        CHECK(mine != NULL);
        gdr_mh_t handle;
        void *va;
        EQUALS(0, gdr_pin_buffer(mine, aligned, BYTES, 0, 0, &handle));
        EQUALS(0, gdr_map(mine, handle, &va, BYTES));
        EQUALS(0, gdr_copy_to_mapping(handle, va, host, BYTES));
        EQUALS(0, gdr_close(mine));
    }
    return unused;
}

static void child(void)
{
    /* Ends a child that hangs. */
    alarm(60);
    EQUALS(EACCES, gdr_close(g));
    EQUALS(EINVAL, gdr_close(NULL));
    gdr_t mine = gdr_open();
    CHECK(mine != NULL && mine != g);
    EQUALS(EACCES, gdr_close(g));
    EQUALS(0, gdr_close(mine));
    _exit(0);
}

int main(int argc, char **argv)
{
    int children = argc > 1 ? atoi(argv[1]) : 100;
    /* Fast output, so that threads are mostly inside a message. */
    int nowhere = open("/dev/null", O_WRONLY);
    CHECK(nowhere >= 0 && dup2(nowhere, 2) == 2);
    unsigned long address = gdr_sim_allocate(2 * BYTES);
    aligned = (address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    g = gdr_open();
    CHECK(g != NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i)
        EQUALS(0, pthread_create(&threads[i], NULL, i % 2 ? complain : work, NULL));
    for (int i = 0; i < children; ++i) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            child();
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        EQUALS(0, status);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 4; ++i)
        EQUALS(0, pthread_join(threads[i], NULL));
    EQUALS(0, gdr_close(g));
    gdr_sim_free(address);
    puts("fork_threads: passed");
    return 0;
}
