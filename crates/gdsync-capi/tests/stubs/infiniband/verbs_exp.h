/* MOFED's header of old, which libgdsync's test programs include: they need what rdma-core has. Never installed. */
#include <infiniband/verbs.h>
