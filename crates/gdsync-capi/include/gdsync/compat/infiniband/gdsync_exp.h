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
 * As gds_poll_cq, for the verbs completion queue in a gds_cq. -ENOENT for other completion queues.
 */
int gds_poll_verbs_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);

END_C_DECLS

/* Polls any completion queue: those of gds_create_qp must not be polled by rdma-core's ibv_poll_cq. */
static inline int gds_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
    const int count = gds_poll_verbs_cq(cq, num_entries, wc);
    return count == -2 /* ENOENT */ ? ibv_poll_cq(cq, num_entries, wc) : count;
}
#define ibv_poll_cq gds_exp_poll_cq

#endif /* GDSYNC_EXP_H */
