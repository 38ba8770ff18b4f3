/*
 * The comm library: exchanges by the CPU, by streams, and by a kernel, which the CPU plays with the functions of mp/device.cuh.
 */
#define __CUDACC__
#define __device__
#define __host__

static long long clock64() { return 0; }
static void __threadfence_block() {}
static void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#include "ranks.h"

#include <gdsync.h>
#include <mp/comm.h>
#include <mp/device.cuh>

enum { LENGTH = 3000, PART = 8192 };

static comm_reg_t sends_region, receives_region;

static void exchange(int round, CUstream stream)
{
    comm_request_t requests[3];
    const bool by_stream = round % 2 == 1;
    fill(0, LENGTH, (unsigned)(3 * round + rank));
    memset(memory + PART, 0, PART);
    EQUALS(0, comm_irecv(memory + PART, LENGTH / 4, MPI_INT, &receives_region, peer, &requests[0]));
    if (by_stream) {
        EQUALS(0, comm_send_ready_on_stream(peer, &requests[1], stream));
        EQUALS(0, comm_wait_ready_on_stream(peer, stream));
        EQUALS(0, comm_isend_on_stream(memory, LENGTH, MPI_CHAR, &sends_region, peer, &requests[2], stream));
        EQUALS(0, comm_wait_all_on_stream(3, requests, stream));
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
        EQUALS(3, comm_progress());
    } else {
        EQUALS(0, comm_send_ready(peer, &requests[1]));
        if (round % 4) {
            EQUALS(0, comm_wait_ready(peer));
        } else {
            int ready = 0;
            while (!ready)
                EQUALS(0, comm_test_ready(peer, &ready));
        }
        EQUALS(0, comm_isend(memory, LENGTH / 8, MPI_DOUBLE, &sends_region, peer, &requests[2]));
        EQUALS(0, comm_wait(&requests[0]));
        EQUALS(0, comm_wait_all(1, &requests[2]));
        CHECK(!requests[2]);
    }
    CHECK(!requests[0]);
    CHECK(has(PART, LENGTH, (unsigned)(3 * round + peer)) && is_zero(PART + LENGTH, PART - LENGTH));
    EQUALS(0, comm_flush());
    EQUALS(0, comm_progress());
}

/* What a kernel does with the descriptors of a round. */
static void kernel(comm_dev_descs_t descs)
{
    EQUALS(1, descs->n_ready);
    EQUALS(1, descs->n_tx);
    EQUALS(2, descs->n_wait);
    gdsync::wait_cond_t geq = GDS_WAIT_COND_GEQ;
    EQUALS(0, gdsync::device::wait(descs->ready[0], geq));
    mp::device::mlx5::send(descs->tx[0]);
    for (int i = 0; i < 2; ++i) {
        EQUALS(0, mp::device::mlx5::wait(descs->wait[i]));
        mp::device::mlx5::signal(descs->wait[i]);
    }
}

static void exchange_by_kernel(int round)
{
    comm_request_t requests[3];
    fill(0, LENGTH, (unsigned)(3 * round + rank));
    memset(memory + PART, 0, PART);
    EQUALS(0, comm_irecv(memory + PART, LENGTH, MPI_CHAR, &receives_region, peer, &requests[0]));
    EQUALS(0, comm_send_ready(peer, &requests[2]));
    EQUALS(0, comm_prepare_wait_ready(peer));
    EQUALS(0, comm_prepare_isend(memory, LENGTH, MPI_CHAR, &sends_region, peer, &requests[1]));
    EQUALS(0, comm_prepare_wait_all(2, requests));
    kernel(comm_prepared_requests());
    CHECK(has(PART, LENGTH, (unsigned)(3 * round + peer)));
    EQUALS(0, comm_flush());
}

/* libmp's own descriptors. */
static void descriptors()
{
    mp_request_t sent, received;
    mp_reg_t own;
    mp::mlx5::send_desc_t send;
    mp::mlx5::wait_desc_t waits[2];
    gdsync::isem32_t sem;
    EQUALS(0, mp_register(memory, BYTES, &own));
    fill(0, LENGTH, 90);
    memset(memory + PART, 0, PART);
    EQUALS(0, mp_irecv(memory + PART, LENGTH, peer, &own, &received));
    barrier();
    EQUALS(0, mp_send_prepare(memory, LENGTH, peer, &own, &sent));
    EQUALS(EINVAL, mp::mlx5::get_descriptors(&waits[0], &sent));
    EQUALS(EINVAL, mp::mlx5::get_descriptors(&send, &received));
    EQUALS(0, mp::mlx5::get_descriptors(&send, &sent));
    EQUALS(EINVAL, mp::mlx5::get_descriptors(&send, &sent));
    EQUALS(0, mp::mlx5::get_descriptors(&waits[0], &sent));
    EQUALS(0, mp::mlx5::get_descriptors(&waits[1], &received));
    mp::device::mlx5::send(send);
    for (int i = 0; i < 2; ++i) {
        EQUALS(0, mp::device::mlx5::wait(waits[i]));
        mp::device::mlx5::signal(waits[i]);
    }
    CHECK(has(PART, LENGTH, 90));
    EQUALS(0, mp_wait(&sent));
    EQUALS(0, mp_wait(&received));
    uint32_t *word = (uint32_t *)(void *)memory;
    EQUALS(0, mp::mlx5::get_descriptors(&sem, word, 5));
    CHECK(sem.value == 5);
    gdsync::device::release(sem);
    EQUALS(5, *word);
    EQUALS(EINVAL, mp::mlx5::get_descriptors((gdsync::isem32_t *)NULL, word, 5));
    EQUALS(0, mp_deregister(&own));
}

int main()
{
    start();
    CHECK(comm_use_comm() == 1 && comm_use_model_sa() == 0 && comm_use_model_ki() == 1);
    /* The machine has two. */
    CHECK(comm_select_device(0) == 0 && comm_select_device(3) == 1);
    setenv("COMM_USE_GPU_ID", "5", 1);
    EQUALS(5, comm_select_device(0));
    EQUALS(EINVAL, comm_wait_ready(peer));
    CHECK(comm_prepared_requests() == NULL);
    EQUALS(0, comm_init(MPI_COMM_WORLD, 0));
    EQUALS(EALREADY, comm_init(MPI_COMM_WORLD, 0));
    CHECK(!posix_memalign((void **)&memory, 4096, BYTES));
    EQUALS(EINVAL, comm_register(memory, 0, &sends_region));
    EQUALS(0, comm_register(memory, PART, &sends_region));
    CUstream stream = new_stream();
    for (int round = 0; round < 40; ++round)
        exchange(round, stream);
    for (int round = 0; round < 300; ++round)
        exchange_by_kernel(round);
    descriptors();
    for (int i = 0; i < 33; ++i)
        EQUALS(i < 32 ? 0 : ENOSPC, comm_prepare_wait_ready(peer));
    end(stream);
    EQUALS(0, comm_deregister(&sends_region));
    CHECK(!sends_region);
    EQUALS(0, comm_deregister(&sends_region));
    EQUALS(0, comm_deregister(&receives_region));
    comm_finalize();
    free(memory);
    MPI_Finalize();
    puts("comm: ok");
    return 0;
}
