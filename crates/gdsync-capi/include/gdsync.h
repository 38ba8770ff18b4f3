/*
 * gdsync.h: the C interface of libgdsync.so.2, GPUDirect Async API 2.2.
 *
 * A CUDA stream writes words of memory and waits for words of memory, in the order of its other work and without the CPU; so it sends,
 * and waits for what was sent or received. The interface is that of NVIDIA's libgdsync, name for name; these headers and the library
 * behind them are an independent implementation for today's CUDA and rdma-core. Where libgdsync has types of MOFED's verbs_exp.h, rdma-
 * core's stand here, as in libgdsync's DirectVerbs branch, from which gds_modify_qp and gds_poll_cq are too.
 *
 * Every function that returns int returns 0, or a positive errno value and nothing done, but for gds_poll_cq. NULL and misaligned
 * pointers, unknown flags, tags and conditions, queue pairs that are gone and requests that are none are answered with EINVAL; ENOMEM is
 * a queue that is full; EOPNOTSUPP what this library or who is behind a queue pair does not do; EPERM what CUDA does not support or
 * permit; EFAULT memory that the CPU does not reach. Functions may be called from any thread at any time.
 *
 * The library uses the program's own CUDA: the context that is current on the calling thread. It makes none.
 *
 * Environment (a number other than 0 turns each on):
 *   GDS_ENABLE_DEBUG          more messages on standard error
 *   GDS_ENABLE_DUMP_MEMOPS    tell each batch that is put into a stream
 *   GDS_DISABLE_WRITE64       write words of 64 bits in halves
 *   GDS_DISABLE_WAIT_NOR      no waits by GDS_WAIT_COND_NOR (EINVAL)
 *   GDS_DISABLE_REMOTE_FLUSH  GDS_WAIT_POST_FLUSH_REMOTE is ignored
 *   GDS_DISABLE_WRITEMEMORY   accepted; memory is always written in words, for want of a public CUDA operation
 *   GDS_HCA=proxy|mlx5        who is behind queue pairs; without it, who fits the device. The proxy is a thread of this process, and any
 *                             verbs device behind it; with mlx5 the GPU rings the NIC itself (EOPNOTSUPP so far)
 *   GDR_BACKEND               how GPU memory is mapped for the CPU: see gdrapi.h
 */
#ifndef __GDSYNC_H__
#define __GDSYNC_H__

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

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
