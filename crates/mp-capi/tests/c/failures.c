/*
 * MP_TIMEOUT_MS=1500: a message without a receive, and a rank that stops, end every wait in time.
 */
#include <signal.h>

#include "ranks.h"

/* Fails unless the seconds since `start_time` are about the timeout. */
static void in_time(double start_time, double most)
{
    const double waited = now() - start_time;
    if (waited < 1.4 || waited > most) {
        fprintf(stderr, "waited %f s\n", waited);
        exit(1);
    }
}

static void missing_receive(void)
{
    mp_request_t sent;
    if (rank == 0) {
        const double start_time = now();
        EQUALS(MP_SUCCESS, mp_isend(memory, 1234, peer, &region, &sent));
        EQUALS(ETIMEDOUT, mp_wait(&sent));
        in_time(start_time, 6);
        EQUALS(EINVAL, mp_wait(&sent));
        EQUALS(ENOTCONN, mp_isend(memory, 1234, peer, &region, &sent));
    }
    barrier();
}

static void stopped_rank(void)
{
    mp_request_t requests[2], prepared;
    int pid = getpid();
    EQUALS(MPI_SUCCESS, MPI_Bcast(&pid, 1, MPI_INT, 1, MPI_COMM_WORLD));
    if (rank == 1) {
        kill(pid, SIGSTOP);
        return;
    }
    sleep(1);
    CUstream stream = new_stream();
    const double start_time = now();
    EQUALS(MP_SUCCESS, mp_irecv(memory, 99, peer, &region, &requests[0]));
    EQUALS(MP_SUCCESS, mp_irecv(memory, 99, peer, &region, &requests[1]));
    EQUALS(MP_SUCCESS, mp_send_prepare(memory, 99, peer, &region, &prepared));
    EQUALS(MP_SUCCESS, mp_wait_on_stream(&requests[1], stream));
    EQUALS(ETIMEDOUT, mp_wait(&requests[0]));
    in_time(start_time, 6);
    EQUALS(ECANCELED, mp_wait(&requests[1]));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    in_time(start_time, 7);
    EQUALS(ENOTCONN, mp_isend_post_on_stream(&prepared, stream));
    end(stream);
    kill(pid, SIGCONT);
}

int main(int argc, char **argv)
{
    begin();
    CHECK(argc == 2);
    if (!strcmp(argv[1], "missing"))
        missing_receive();
    else
        stopped_rank();
    barrier();
    finish("failures");
    return 0;
}
