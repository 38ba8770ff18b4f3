/*
 * A child with its parent's process id, because each is the first process of its own PID namespace.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define BYTES GPU_PAGE_SIZE

/* Runs `does` as process 1 of a new namespace; 77 if namespaces are not permitted. */
static int in_namespace(void (*does)(void))
{
    if (unshare(CLONE_NEWPID) != 0)
        return 77;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        EQUALS(1, getpid());
        does();
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct mapped parents;

static void child(void)
{
    unsigned char byte = 0;
    void *va;
    gdr_mh_t fresh;
    EQUALS(EACCES, gdr_unmap(parents.g, parents.handle, parents.va, BYTES));
    EQUALS(EACCES, gdr_unpin_buffer(parents.g, parents.handle));
    EQUALS(EACCES, gdr_close(parents.g));
    EQUALS(EINVAL, gdr_copy_to_mapping(parents.handle, parents.va, &byte, 1));
    gdr_t mine = gdr_open();
    CHECK(mine != NULL && mine != parents.g);
    EQUALS(0, gdr_pin_buffer(mine, parents.aligned, BYTES, 0, 0, &fresh));
    CHECK(fresh.h != parents.handle.h);
    EQUALS(0, gdr_map(mine, fresh, &va, BYTES));
    EQUALS(EINVAL, gdr_copy_to_mapping(parents.handle, parents.va, &byte, 1));
    EQUALS(0, gdr_close(mine));
}

static void parent(void)
{
    parents = new_mapped(BYTES);
    int code = in_namespace(child);
    if (code != 0)
        _exit(code);
    /* The parent is not affected. */
    still_copies(&parents);
    EQUALS(0, gdr_close(parents.g));
}

int main(void)
{
    int code = in_namespace(parent);
    if (code == 0)
        puts("fork_namespace: passed");
    return code;
}
