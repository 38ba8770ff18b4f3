/*
 * verbs_exp.h: the name of MOFED's header, which programs for libgdsync's releases include. See gdsync_exp.h.
 */
#ifndef GDSYNC_VERBS_EXP_H
#define GDSYNC_VERBS_EXP_H

#include <infiniband/gdsync_exp.h>

#endif /* GDSYNC_VERBS_EXP_H */
