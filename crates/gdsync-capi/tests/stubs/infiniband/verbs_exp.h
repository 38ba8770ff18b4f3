/*
 * MOFED's header of old, which libgdsync's test programs include: they need what rdma-core has, and two macros that MOFED's
 * headers had. Never installed.
 */
#ifndef STUB_VERBS_EXP_H
#define STUB_VERBS_EXP_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
#define BEGIN_C_DECLS extern "C" {
#define END_C_DECLS }
#else
#define BEGIN_C_DECLS
#define END_C_DECLS
#endif

#endif
