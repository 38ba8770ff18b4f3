/*
 * mp/comm.h: libmp's comm library. A rank tells a peer that a receive is posted, and the peer waits for that before it sends. All
 * ranks of the communicator are peers. Functions return 0 or an error, as in mp.h; libmp's end the process instead.
 */
#ifndef MP_COMM_H
#define MP_COMM_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
#include <mp/device.cuh>

/* What a kernel needs for one exchange. */
struct comm_dev_descs {
    enum { max_n_descs = 32 };
    int n_ready;
    mp::mlx5::isem32_t ready[max_n_descs];
    int n_tx;
    mp::mlx5::send_desc_t tx[max_n_descs];
    int n_wait;
    mp::mlx5::wait_desc_t wait[max_n_descs];
};

extern "C" {
#endif

typedef struct comm_dev_descs *comm_dev_descs_t;
typedef struct comm_request *comm_request_t;
typedef struct comm_reg *comm_reg_t;
typedef struct CUstream_st *comm_stream_t;

/* 1 if COMM_USE_COMM, COMM_USE_ASYNC_SA, COMM_USE_ASYNC_KI is a number other than 0. */
int comm_use_comm(void);
int comm_use_model_sa(void);
int comm_use_model_ki(void);
/* The GPU of COMM_USE_GPU_ID, else the rank modulo the number of GPUs. */
int comm_select_device(int rank);

/* mp_init with all other ranks as peers. Every rank calls it. */
int comm_init(MPI_Comm comm, int gpu_id);
void comm_finalize(void);

/* Tells a rank that one more receive is posted for it. The request of the first one is not waited for. */
int comm_send_ready(int rank, comm_request_t *req);
int comm_send_ready_on_stream(int rank, comm_request_t *req, comm_stream_t stream);
/* Waits until a rank has posted one more receive. comm_test_ready writes 1 if it has, else 0. */
int comm_wait_ready(int rank);
int comm_wait_ready_on_stream(int rank, comm_stream_t stream);
int comm_test_ready(int rank, int *ready);

/* Messages of `size` elements. A buffer whose `*reg` is NULL is registered. */
int comm_irecv(void *buf, size_t size, MPI_Datatype type, comm_reg_t *reg, int rank, comm_request_t *req);
int comm_isend(void *buf, size_t size, MPI_Datatype type, comm_reg_t *reg, int rank, comm_request_t *req);
int comm_isend_on_stream(void *buf, size_t size, MPI_Datatype type, comm_reg_t *reg, int rank, comm_request_t *req,
                         comm_stream_t stream);

/* Wait for requests and set them to NULL. comm_flush waits for all that are open; comm_progress polls and returns how many have ended. */
int comm_wait(comm_request_t *req);
int comm_wait_all(int count, comm_request_t *reqs);
int comm_wait_all_on_stream(int count, comm_request_t *reqs, comm_stream_t stream);
int comm_flush(void);
int comm_progress(void);

/* Collect descriptors for a kernel: up to 32 of each kind. comm_prepared_requests returns them; they stay valid for 127 more calls. */
int comm_prepare_wait_ready(int rank);
int comm_prepare_isend(void *buf, size_t size, MPI_Datatype type, comm_reg_t *reg, int rank, comm_request_t *req);
int comm_prepare_wait_all(int count, comm_request_t *reqs);
comm_dev_descs_t comm_prepared_requests(void);

/* EINVAL for a size of 0. Nothing is done if `*reg` is not NULL, or for comm_deregister if it is. */
int comm_register(void *buf, size_t size, comm_reg_t *reg);
int comm_deregister(comm_reg_t *reg);

#ifdef __cplusplus
}
#endif

#endif /* MP_COMM_H */
