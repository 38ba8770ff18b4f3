/*
 * Compiles, as C and as C++, if the headers have the sizes, offsets, values and signatures of libgdsync 2.2. The numbers were
 * taken with GCC from upstream's headers on x86_64, against which the same text compiles.
 */
#include <stddef.h>

#include <gdsync.h>
#include <gdsync/mlx5.h>
#include <gdsync/tools.h>

#ifdef __cplusplus
#define SAME(what, value) static_assert((what) == (value), #what)
#else
#define SAME(what, value) _Static_assert((what) == (value), #what)
#endif

SAME(GDS_API_MAJOR_VERSION, 2);
SAME(GDS_API_MINOR_VERSION, 2);
SAME(GDS_API_VERSION, 0x20002u);
SAME(GDS_API_VERSION_COMPATIBLE(0x20002), 1);
SAME(GDS_API_VERSION_COMPATIBLE(0x20003), 1);
SAME(GDS_API_VERSION_COMPATIBLE(0x20001), 0);
SAME(GDS_API_VERSION_COMPATIBLE(0x10002), 0);
SAME(GDS_API_VERSION_COMPATIBLE(0x30002), 0);
SAME(GDS_PARAM_VERSION, 0);
SAME(GDS_NUM_PARAMS, 1);

SAME(GDS_MEMORY_GPU, 1);
SAME(GDS_MEMORY_HOST, 2);
SAME(GDS_MEMORY_IO, 4);
SAME(GDS_MEMORY_MASK, 7);
SAME(GDS_WAIT_POST_FLUSH_REMOTE, 8);
SAME(GDS_WAIT_POST_FLUSH, 8);
SAME(GDS_WRITE_PRE_BARRIER_SYS, 16);
SAME(GDS_WRITE_PRE_BARRIER, 16);
SAME(GDS_WRITE_MEMORY_POST_BARRIER_SYS, 16);
SAME(GDS_WRITE_MEMORY_PRE_BARRIER_SYS, 32);
SAME(GDS_MEMBAR_FLUSH_REMOTE, 16);
SAME(GDS_MEMBAR_DEFAULT, 32);
SAME(GDS_MEMBAR_SYS, 64);
SAME(GDS_MEMBAR_MLX5, 128);
SAME(GDS_WAIT_COND_GEQ, 0);
SAME(GDS_WAIT_COND_EQ, 1);
SAME(GDS_WAIT_COND_AND, 2);
SAME(GDS_WAIT_COND_NOR, 3);
SAME(GDS_TAG_SEND, 0);
SAME(GDS_TAG_WAIT, 1);
SAME(GDS_TAG_WAIT_VALUE32, 2);
SAME(GDS_TAG_WRITE_VALUE32, 3);
SAME(GDS_TAG_WRITE_MEMORY, 4);
SAME(sizeof(gds_param_t), 4);
SAME(sizeof(gds_memory_type_t), 4);
SAME(sizeof(gds_wait_flags_t), 4);
SAME(sizeof(gds_write_flags_t), 4);
SAME(sizeof(gds_write_memory_flags_t), 4);
SAME(sizeof(gds_membar_flags_t), 4);
SAME(sizeof(gds_wait_cond_flag_t), 4);
SAME(sizeof(gds_tag_t), 4);

SAME(sizeof(gds_wait_value32_t), 24);
SAME(offsetof(gds_wait_value32_t, ptr), 0);
SAME(offsetof(gds_wait_value32_t, value), 8);
SAME(offsetof(gds_wait_value32_t, cond_flags), 12);
SAME(offsetof(gds_wait_value32_t, flags), 16);
SAME(sizeof(gds_write_value32_t), 16);
SAME(offsetof(gds_write_value32_t, ptr), 0);
SAME(offsetof(gds_write_value32_t, value), 8);
SAME(offsetof(gds_write_value32_t, flags), 12);
SAME(sizeof(gds_write_memory_t), 32);
SAME(offsetof(gds_write_memory_t, dest), 0);
SAME(offsetof(gds_write_memory_t, src), 8);
SAME(offsetof(gds_write_memory_t, count), 16);
SAME(offsetof(gds_write_memory_t, flags), 24);
SAME(sizeof(gds_descriptor_t), 40);
SAME(offsetof(gds_descriptor_t, tag), 0);
SAME(offsetof(gds_descriptor_t, send), 8);
SAME(offsetof(gds_descriptor_t, wait), 8);
SAME(offsetof(gds_descriptor_t, wait32), 8);
SAME(offsetof(gds_descriptor_t, write32), 8);
SAME(offsetof(gds_descriptor_t, writemem), 8);
SAME(sizeof(gds_mem_desc_t), 48);
SAME(offsetof(gds_mem_desc_t, d_ptr), 0);
SAME(offsetof(gds_mem_desc_t, h_ptr), 8);
SAME(offsetof(gds_mem_desc_t, bar_ptr), 16);
SAME(offsetof(gds_mem_desc_t, flags), 24);
SAME(offsetof(gds_mem_desc_t, alloc_size), 32);
SAME(offsetof(gds_mem_desc_t, mh), 40);
SAME(sizeof(gds_mlx5_dword_wait_info_t), 16);
SAME(offsetof(gds_mlx5_dword_wait_info_t, ptr), 0);
SAME(offsetof(gds_mlx5_dword_wait_info_t, value), 8);

/* Queue pairs as in libgdsync 2.2, except for the types; requests have the size of those of its DirectVerbs branch. */
SAME(GDS_CREATE_QP_DEFAULT, 0);
SAME(GDS_CREATE_QP_WQ_ON_GPU, 1);
SAME(GDS_CREATE_QP_TX_CQ_ON_GPU, 2);
SAME(GDS_CREATE_QP_RX_CQ_ON_GPU, 4);
SAME(GDS_CREATE_QP_WQ_DBREC_ON_GPU, 32);
SAME(GDS_SEND_INFO_MAX_OPS, 32);
SAME(GDS_WAIT_INFO_MAX_OPS, 32);
SAME(sizeof(gds_qp_init_attr_t), sizeof(struct ibv_qp_init_attr));
SAME(sizeof(gds_send_wr), sizeof(struct ibv_send_wr));
SAME(sizeof(struct gds_cq), 16);
SAME(offsetof(struct gds_cq, cq), 0);
SAME(offsetof(struct gds_cq, curr_offset), 8);
SAME(sizeof(struct gds_qp), 56);
SAME(offsetof(struct gds_qp, qp), 0);
SAME(offsetof(struct gds_qp, send_cq), 8);
SAME(offsetof(struct gds_qp, recv_cq), 24);
SAME(offsetof(struct gds_qp, res_domain), 40);
SAME(offsetof(struct gds_qp, dev_context), 48);
SAME(sizeof(gds_send_request_t), 1856);
SAME(sizeof(gds_wait_request_t), 1856);
SAME(sizeof(gds_mlx5_send_info_t), 40);
SAME(offsetof(gds_mlx5_send_info_t, dbrec_ptr), 8);
SAME(offsetof(gds_mlx5_send_info_t, dbrec_value), 16);
SAME(offsetof(gds_mlx5_send_info_t, db_ptr), 24);
SAME(offsetof(gds_mlx5_send_info_t, db_value), 32);
SAME(sizeof(gds_mlx5_wait_info_t), 40);
SAME(offsetof(gds_mlx5_wait_info_t, cond), 0);
SAME(offsetof(gds_mlx5_wait_info_t, cqe_ptr), 8);
SAME(offsetof(gds_mlx5_wait_info_t, cqe_value), 16);
SAME(offsetof(gds_mlx5_wait_info_t, flag_ptr), 24);
SAME(offsetof(gds_mlx5_wait_info_t, flag_value), 32);
/* Structures of verbs that the library reads and writes. */
SAME(sizeof(struct ibv_wc), 48);
SAME(offsetof(struct ibv_wc, status), 8);
SAME(offsetof(struct ibv_wc, opcode), 12);
SAME(offsetof(struct ibv_wc, vendor_err), 16);
SAME(offsetof(struct ibv_wc, byte_len), 20);
SAME(offsetof(struct ibv_wc, imm_data), 24);
SAME(offsetof(struct ibv_wc, qp_num), 28);
SAME(offsetof(struct ibv_wc, src_qp), 32);
SAME(offsetof(struct ibv_wc, wc_flags), 36);
SAME(offsetof(struct ibv_wc, pkey_index), 40);
SAME(offsetof(struct ibv_wc, sl), 44);
SAME(IBV_WC_SEND, 0);
SAME(IBV_WC_RDMA_WRITE, 1);
SAME(IBV_WC_RDMA_READ, 2);
SAME(IBV_WC_COMP_SWAP, 3);
SAME(IBV_WC_FETCH_ADD, 4);
SAME(IBV_WC_RECV, 128);
SAME(IBV_WC_RECV_RDMA_WITH_IMM, 129);
SAME(IBV_WC_WITH_IMM, 2);
SAME(IBV_WC_LOC_LEN_ERR, 1);
SAME(IBV_WC_LOC_QP_OP_ERR, 2);
SAME(IBV_WC_LOC_PROT_ERR, 4);
SAME(IBV_WC_WR_FLUSH_ERR, 5);
SAME(IBV_WC_MW_BIND_ERR, 6);
SAME(IBV_WC_BAD_RESP_ERR, 7);
SAME(IBV_WC_LOC_ACCESS_ERR, 8);
SAME(IBV_WC_REM_INV_REQ_ERR, 9);
SAME(IBV_WC_REM_ACCESS_ERR, 10);
SAME(IBV_WC_REM_OP_ERR, 11);
SAME(IBV_WC_RETRY_EXC_ERR, 12);
SAME(IBV_WC_RNR_RETRY_EXC_ERR, 13);
SAME(IBV_WC_REM_ABORT_ERR, 16);
SAME(IBV_WC_GENERAL_ERR, 21);

/* Checks the signatures: a function pointer of another type is an error. */
struct gds_qp *(*create)(struct ibv_pd *, struct ibv_context *, gds_qp_init_attr_t *, int, int) = gds_create_qp;
int (*destroy)(struct gds_qp *) = gds_destroy_qp;
int (*modify)(gds_qp_t *, struct ibv_qp_attr *, int) = gds_modify_qp;
int (*post_send)(struct gds_qp *, gds_send_wr *, gds_send_wr **) = gds_post_send;
int (*post_recv)(struct gds_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **) = gds_post_recv;
int (*poll_cq)(struct gds_cq *, int, struct ibv_wc *) = gds_poll_cq;
int (*queue_send)(CUstream, struct gds_qp *, gds_send_wr *, gds_send_wr **) = gds_stream_queue_send;
int (*wait_cq)(CUstream, struct gds_cq *, int) = gds_stream_wait_cq;
int (*prepare_send)(struct gds_qp *, gds_send_wr *, gds_send_wr **, gds_send_request_t *) = gds_prepare_send;
int (*stream_send)(CUstream, gds_send_request_t *) = gds_stream_post_send;
int (*stream_sends)(CUstream, int, gds_send_request_t *) = gds_stream_post_send_all;
int (*prepare_wait_cq)(struct gds_cq *, gds_wait_request_t *, int) = gds_prepare_wait_cq;
int (*append_wait)(gds_wait_request_t *, uint32_t *, uint32_t) = gds_append_wait_cq;
int (*stream_wait)(CUstream, gds_wait_request_t *) = gds_stream_post_wait_cq;
int (*stream_waits)(CUstream, int, gds_wait_request_t *) = gds_stream_post_wait_cq_all;
int (*post_wait)(struct gds_cq *, gds_wait_request_t *, int) = gds_post_wait_cq;
int (*send_info)(int, const gds_send_request_t *, gds_mlx5_send_info_t *) = gds_mlx5_get_send_info;
int (*cq_wait_info)(int, const gds_wait_request_t *, gds_mlx5_wait_info_t *) = gds_mlx5_get_wait_info;
int (*query)(gds_param_t, int *) = gds_query_param;
int (*prepare_wait)(gds_wait_value32_t *, uint32_t *, uint32_t, gds_wait_cond_flag_t, int) = gds_prepare_wait_value32;
int (*prepare_write)(gds_write_value32_t *, uint32_t *, uint32_t, int) = gds_prepare_write_value32;
int (*prepare_memory)(gds_write_memory_t *, uint8_t *, const uint8_t *, size_t, int) = gds_prepare_write_memory;
int (*post_on_stream)(CUstream, size_t, gds_descriptor_t *, int) = gds_stream_post_descriptors;
int (*post)(size_t, gds_descriptor_t *, int) = gds_post_descriptors;
int (*allocate)(gds_mem_desc_t *, size_t, int) = gds_alloc_mapped_memory;
int (*release)(gds_mem_desc_t *) = gds_free_mapped_memory;
int (*wait_info)(uint32_t *, uint32_t, int, gds_mlx5_dword_wait_info_t *) = gds_mlx5_get_dword_wait_info;

int main(void)
{
    int version = 0;
    return gds_query_param(GDS_PARAM_VERSION, &version) == 0 && GDS_API_VERSION_COMPATIBLE(version) ? 0 : 1;
}
