/*
 * gdsync.h: the C interface of libgdsync.so.2, GPUDirect Async API 2.2.
 *
 * A CUDA stream writes words of memory and waits for words of memory, in the order of its other work and without the CPU. The
 * interface is that of NVIDIA's libgdsync, name for name and byte for byte; these headers and the library behind them are an
 * independent implementation for today's CUDA and rdma-core. Declared here is what the library has: the functions that need a
 * card are to follow.
 *
 * Every function returns 0, or a positive errno value and nothing done. NULL and misaligned pointers, unknown flags, tags and
 * conditions are answered with EINVAL; ENOSYS is what this library does not have yet; EPERM what CUDA does not support or permit;
 * EFAULT memory that the CPU does not reach. Functions may be called from any thread at any time.
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
