/*
 * A forked child cannot use or harm its parent's mappings, and can open its own session.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define BYTES (2 * GPU_PAGE_SIZE)

static struct mapped parents;

/* The parent's mapping is absent: SIGSEGV. */
static void child_touches(void)
{
    signal(SIGSEGV, SIG_DFL);
    _exit(*(volatile unsigned char *)parents.va == 0);
}

/* A copy through the parent's handle fails without an access. */
static void child_copies(void)
{
    unsigned char byte = 0;
    EQUALS(EINVAL, gdr_copy_to_mapping(parents.handle, parents.va, &byte, 1));
    EQUALS(EINVAL, gdr_copy_from_mapping(parents.handle, &byte, parents.va, 1));
    _exit(0);
}

static void child_calls(void)
{
    int value;
    void *va;
    gdr_info_v2_t info;
    gdr_mh_t fresh;
    EQUALS(EACCES, gdr_pin_buffer(parents.g, parents.aligned, BYTES, 0, 0, &fresh));
    EQUALS(EACCES, gdr_map(parents.g, parents.handle, &va, BYTES));
    EQUALS(EACCES, gdr_unmap(parents.g, parents.handle, parents.va, BYTES));
    EQUALS(EACCES, gdr_get_info_v2(parents.g, parents.handle, &info));
    EQUALS(EACCES, gdr_get_callback_flag(parents.g, parents.handle, &value));
    EQUALS(EACCES, gdr_get_attribute(parents.g, GDR_ATTR_USING_DMA_BUF_MMAP, &value));
    EQUALS(EACCES, gdr_unpin_buffer(parents.g, parents.handle));
    EQUALS(EACCES, gdr_close(parents.g));
    EQUALS(EINVAL, gdr_close(NULL));

    /* The child's session works and does not know the parent's handle. */
    gdr_t mine = gdr_open();
    CHECK(mine != NULL && mine != parents.g);
    EQUALS(EINVAL, gdr_map(mine, parents.handle, &va, BYTES));
    unsigned long address = gdr_sim_allocate(2 * BYTES);
    unsigned long my_aligned = (address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    EQUALS(0, gdr_pin_buffer(mine, my_aligned, BYTES, 0, 0, &fresh));
    CHECK(fresh.h != parents.handle.h);
    EQUALS(0, gdr_map(mine, fresh, &va, BYTES));
    unsigned char byte = 9;
    EQUALS(0, gdr_copy_to_mapping(fresh, va, &byte, 1));
    EQUALS(9, gpu_byte(my_aligned));
    EQUALS(EINVAL, gdr_copy_to_mapping(parents.handle, parents.va, &byte, 1));
    EQUALS(EACCES, gdr_close(parents.g));
    EQUALS(0, gdr_close(mine));
    EQUALS(EINVAL, gdr_close(mine));
    _exit(0);
}

/* A grandchild detects its grandparent's session. */
static void child_forks(void)
{
    gdr_t mine = gdr_open();
    CHECK(mine != NULL);
    pid_t pid = fork();
    if (pid == 0) {
        EQUALS(EACCES, gdr_close(parents.g));
        EQUALS(EACCES, gdr_close(mine));
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    EQUALS(0, gdr_close(mine));
    _exit(0);
}

static int run(void (*child)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        child();
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

int main(void)
{
    parents = new_mapped(BYTES);

    int status = run(child_touches);
    /* A sanitizer turns the signal into an exit code. */
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WEXITSTATUS(status) > 1);
    EQUALS(0, run(child_copies));
    EQUALS(0, run(child_calls));
    EQUALS(0, run(child_forks));

    /* The parent is not affected. */
    still_copies(&parents);
    EQUALS(0, gdr_unmap(parents.g, parents.handle, parents.va, BYTES));
    EQUALS(0, gdr_unpin_buffer(parents.g, parents.handle));
    EQUALS(0, gdr_close(parents.g));
    gdr_sim_free(parents.address);
    puts("fork: passed");
    return 0;
}
