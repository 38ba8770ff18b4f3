/*
 * mp/device.cuh: requests of libmp for kernels. C++; the device functions are there for CUDA's compiler.
 */
#ifndef MP_DEVICE_CUH
#define MP_DEVICE_CUH

#include <mp.h>
#include <gdsync/device.cuh>

#ifdef __cplusplus

namespace mp {
namespace mlx5 {

typedef gdsync::isem32_t isem32_t;

/* The words that send a prepared request: the record first, a fence for the system, then the doorbell. */
typedef struct send_desc {
    gdsync::isem32_t dbrec;
    gdsync::isem64_t db;
} send_desc_t;

/* The word that a request's completion changes, how it is compared, and the word to write afterwards. */
typedef struct wait_desc {
    gdsync::wait_cond_t sema_cond;
    gdsync::isem32_t sema;
    gdsync::isem32_t flag;
} wait_desc_t;

/*
 * Called by the host. A word of host memory that a kernel waits for; a prepared send or put, which counts as posted from then on;
 * a wait for a posted request or for a receive, whose time begins now. mp_wait frees the requests. MP_SUCCESS or an error, as in mp.h.
 */
int get_descriptors(isem32_t *sem, uint32_t *ptr, uint32_t value);
int get_descriptors(send_desc_t *desc, mp_request_t *req);
int get_descriptors(wait_desc_t *desc, mp_request_t *req);

} /* namespace mlx5 */

#if defined(__CUDACC__)
namespace device {
namespace mlx5 {

using namespace gdsync::device;

/* Called by one thread. */
__device__ inline void send(mp::mlx5::send_desc_t &desc)
{
    release(desc.dbrec);
    __threadfence_system();
    release(desc.db);
}

/* 0, or gdsync::ERROR_TIMEOUT, gdsync::ERROR_INVALID. */
__device__ inline int wait(mp::mlx5::wait_desc_t &desc) { return gdsync::device::wait(desc.sema, desc.sema_cond); }

/* After a wait: lets the CPU complete the request. */
__device__ inline void signal(mp::mlx5::wait_desc_t &desc) { release(desc.flag); }

} /* namespace mlx5 */
} /* namespace device */
#endif /* __CUDACC__ */

} /* namespace mp */
#endif /* __cplusplus */

#endif /* MP_DEVICE_CUH */
