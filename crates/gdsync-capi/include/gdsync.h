/*
 * gdsync.h: the C interface of libgdsync.so.2, GPUDirect Async API 2.2.
 *
 * A CUDA stream writes words of memory and waits for words of memory, in order with its other work and without the CPU. So it posts work
 * requests and waits for their completions. The functions are those of NVIDIA's libgdsync; these headers and the library are an
 * independent implementation for current CUDA and rdma-core. Where libgdsync has types of MOFED's verbs_exp.h, rdma-core's types are used
 * here; with gdsync/compat in the search path programs for libgdsync's releases compile unchanged. gds_modify_qp and gds_poll_cq have the names and arguments of libgdsync's DirectVerbs branch. Programs must be compiled against
 * this header.
 *
 * Every function that returns int, except gds_poll_cq, returns 0 on success. On an error it returns a positive errno value and does
 * nothing: EINVAL for NULL or misaligned pointers, unknown flags, tags and conditions, destroyed queue pairs and invalid requests; ENOMEM
 * for a full queue; EOPNOTSUPP for what this library or the queue pair's NIC does not support; EPERM for what CUDA does not support or
 * permit; EFAULT for memory that the CPU cannot access. All functions are thread-safe.
 *
 * The library uses the CUDA context that is current on the calling thread. It creates none.
 *
 * Environment (a number other than 0 turns each on):
 *   GDS_ENABLE_DEBUG          more messages on standard error
 *   GDS_ENABLE_DUMP_MEMOPS    print each batch of memory operations
 *   GDS_ENABLE_WAIT_CHECKER   print whether streams have reached and passed waits by GDS_WAIT_COND_NOR, and their words
 *   GDS_DISABLE_WRITE64       write 64-bit words in halves
 *   GDS_SIMULATE_WRITE64      the same: a memory write of 8 bytes is two words
 *   GDS_DISABLE_WAIT_NOR      reject GDS_WAIT_COND_NOR (EINVAL)
 *   GDS_DISABLE_REMOTE_FLUSH  ignore GDS_WAIT_POST_FLUSH_REMOTE
 *   GDS_DISABLE_MEMBAR        post no barriers: CUDA's writes imply one
 *   GDS_ENABLE_FLUSHER, GDS_DISABLE_WRITEMEMORY, GDS_DISABLE_WEAK_CONSISTENCY=0
 *                             no longer apply; a warning says why
 *   GDS_HCA=proxy|mlx5        how work requests are posted; the default suits the device. proxy: a CPU thread posts them to any verbs
 *                             device. mlx5: the GPU rings the NIC's doorbell itself (EOPNOTSUPP where the driver does not permit it)
 *   GDR_BACKEND               how GPU memory is mapped for the CPU: see gdrapi.h
 */
#ifndef __GDSYNC_H__
#define __GDSYNC_H__

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

/* Only with -I PREFIX/include/gdsync/compat, for programs of libgdsync's releases. */
#if defined(__has_include)
#if __has_include(<infiniband/gdsync_exp.h>)
#include <infiniband/gdsync_exp.h>
#endif
#endif

#include <cuda.h>
#include <gdrapi.h>

#ifdef __cplusplus
#define GDS_BEGIN_DECLS extern "C" {
#define GDS_END_DECLS }
#else
#define GDS_BEGIN_DECLS
#define GDS_END_DECLS
#endif

#include <gdsync/core.h>

#endif /* __GDSYNC_H__ */
