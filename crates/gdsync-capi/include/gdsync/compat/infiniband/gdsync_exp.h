/*
 * gdsync_exp.h: what programs for libgdsync's releases use of MOFED's experimental verbs (verbs_exp.h), over rdma-core.
 *
 * With this directory in the compiler's search path, gdsync.h includes this file, and gds_send_wr and gds_qp_init_attr_t have the members
 * of the releases (exp_opcode, exp_send_flags, comp_mask). The members before comp_mask lie as in struct ibv_send_wr and struct
 * ibv_qp_init_attr, which the library reads. Only these programs need it.
 */
#ifndef GDSYNC_EXP_H
#define GDSYNC_EXP_H

#include <stdint.h>
/* As MOFED's header, which programs rely on. */
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
#define BEGIN_C_DECLS extern "C" {
#define END_C_DECLS }
#else
#define BEGIN_C_DECLS
#define END_C_DECLS
#endif

BEGIN_C_DECLS

/* Opcodes and flags that gds_prepare_send accepts, with rdma-core's values. */
enum ibv_exp_wr_opcode {
    IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
    IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_EXP_WR_SEND = IBV_WR_SEND,
    IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
    IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
    IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
    IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD
};

enum ibv_exp_send_flags {
    IBV_EXP_SEND_FENCE = IBV_SEND_FENCE,
    IBV_EXP_SEND_SIGNALED = IBV_SEND_SIGNALED,
    IBV_EXP_SEND_SOLICITED = IBV_SEND_SOLICITED,
    IBV_EXP_SEND_INLINE = IBV_SEND_INLINE
};

/* comp_mask is ignored. */
struct ibv_exp_send_wr {
    uint64_t wr_id;
    struct ibv_exp_send_wr *next;
    struct ibv_sge *sg_list;
    int num_sge;
    enum ibv_exp_wr_opcode exp_opcode;
    unsigned int exp_send_flags;
    union {
        uint32_t imm_data; /* in network byte order */
    } ex;
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        struct {
            uint64_t remote_addr;
            uint64_t compare_add;
            uint64_t swap;
            uint32_t rkey;
        } atomic;
        struct {
            struct ibv_ah *ah;
            uint32_t remote_qpn;
            uint32_t remote_qkey;
        } ud;
    } wr;
    /* The end of struct ibv_send_wr, without a meaning here. */
    uint64_t reserved[7];
    uint32_t comp_mask;
};

/* comp_mask, pd and res_domain are ignored: the queue pair is in the protection domain that gds_create_qp is given. */
struct ibv_exp_qp_init_attr {
    void *qp_context;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp_cap cap;
    enum ibv_qp_type qp_type;
    int sq_sig_all;
    uint32_t comp_mask;
    struct ibv_pd *pd;
    struct ibv_exp_res_domain *res_domain;
};

/*
 * As gds_poll_cq, gds_post_recv and gds_modify_qp, for the verbs objects in a gds_qp. -ENOENT for other objects.
 */
int gds_poll_verbs_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int gds_post_verbs_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int gds_modify_verbs_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);

END_C_DECLS

/* MOFED's verbs drove the queues of gds_create_qp too; rdma-core's must not. These functions take any object. */
enum { GDS_EXP_OTHER = -2 /* -ENOENT */ };

static inline int gds_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
    const int count = gds_poll_verbs_cq(cq, num_entries, wc);
    return count == GDS_EXP_OTHER ? ibv_poll_cq(cq, num_entries, wc) : count;
}

static inline int gds_exp_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    const int answer = gds_post_verbs_recv(qp, wr, bad_wr);
    return answer == GDS_EXP_OTHER ? ibv_post_recv(qp, wr, bad_wr) : answer;
}

static inline int gds_exp_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
    const int answer = gds_modify_verbs_qp(qp, attr, attr_mask);
    return answer == GDS_EXP_OTHER ? ibv_modify_qp(qp, attr, attr_mask) : answer;
}

#define ibv_poll_cq gds_exp_poll_cq
#define ibv_post_recv gds_exp_post_recv
#define ibv_modify_qp gds_exp_modify_qp

#endif /* GDSYNC_EXP_H */
