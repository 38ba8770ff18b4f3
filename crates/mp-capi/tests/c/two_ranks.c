/* Two processes send each other a message when their streams reach it: mpirun -n 2 two_ranks */
#include <stdio.h>
#include <stdlib.h>

#include <mp.h>

#define CHECK(call) do { if ((call) != 0) MPI_Abort(MPI_COMM_WORLD, 1); } while (0)

enum { BYTES = 4096 };

int main(int argc, char **argv)
{
    CUcontext context;
    cudaStream_t stream = NULL; /* the default stream, or one of cudaStreamCreate */
    mp_request_t received, sent;
    mp_reg_t region;
    int rank, peer;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    /* A program that uses the CUDA runtime calls cudaSetDevice(0) instead. */
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(mp_init(MPI_COMM_WORLD, &peer, 1, MP_INIT_DEFAULT, 0));

    char *memory = aligned_alloc(4096, 2 * BYTES); /* or cudaMalloc */
    CHECK(mp_register(memory, 2 * BYTES, &region));
    /* Before the peer sends. */
    CHECK(mp_irecv(memory + BYTES, BYTES, peer, &region, &received));
    snprintf(memory, BYTES, "hello from rank %d", rank);

    CHECK(mp_isend_on_stream(memory, BYTES, peer, &region, &sent, stream));
    CHECK(mp_wait_on_stream(&received, stream));
    /* Kernels that are launched on the stream now see the message. */
    CHECK(mp_wait(&received));
    CHECK(mp_wait(&sent));
    printf("rank %d: %s\n", rank, memory + BYTES);

    CHECK(mp_deregister(&region));
    free(memory);
    mp_finalize();
    MPI_Finalize();
    return 0;
}
