/*
 * A program compiled with the machine's efadv.h and verbs.h, run with the fake library (machines/efa.json): SRD queue pairs that post
 * by verbs.h's inline functions. Exits with 0, or aborts at a failed assertion.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/efadv.h>

#define QKEY 0x11111111
#define ALL (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE | \
	     IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)

static struct ibv_qp *make(struct ibv_context *context, struct ibv_pd *pd, struct ibv_cq *cq, uint32_t inlined, uint64_t operations)
{
	struct efadv_qp_init_attr of_efa = { .driver_qp_type = EFADV_QP_DRIVER_TYPE_SRD };
	struct ibv_qp_init_attr_ex wanted = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_DRIVER, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = operations,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = inlined },
	};

	return efadv_create_qp_ex(context, &wanted, &of_efa, sizeof(of_efa));
}

static void start(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	assert(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	assert(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	attr.rnr_retry = 7;
	assert(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RNR_RETRY));
}

/* The status of the only completion. */
static enum ibv_wc_status only(struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc done[2];

	assert(ibv_poll_cq(cq, 2, done) == 1 && done[0].wr_id == id);
	return done[0].status;
}

int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	assert(count == 2 && list[0]->node_type == IBV_NODE_UNSPECIFIED);
	assert(list[0]->transport_type == IBV_TRANSPORT_UNSPECIFIED);

	struct ibv_context *context = ibv_open_device(list[0]);
	struct efadv_device_attr able;
	struct ibv_port_attr port;
	union ibv_gid gid;

	assert(context && !efadv_query_device(context, &able, sizeof(able)));
	assert(able.max_sq_wr == 4096 && able.max_rq_wr == 32768 && able.max_sq_sge == 2 && able.inline_buf_size == 32);
	assert(able.device_caps & EFADV_DEVICE_ATTR_CAPS_RDMA_READ && able.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY);
	assert(able.max_rdma_size == 1 << 30);
	/* A program that was compiled before there were capabilities. */
	memset(&able, 0xff, sizeof(able));
	assert(!efadv_query_device(context, &able, offsetof(struct efadv_device_attr, device_caps)));
	assert(able.max_sq_wr == 4096 && able.max_rdma_size == UINT32_MAX);
	assert(!ibv_query_port(context, 1, &port) && port.max_msg_sz == 8928 && port.lid == 0);
	assert(port.link_layer == IBV_LINK_LAYER_UNSPECIFIED && !ibv_query_gid(context, 1, 0, &gid));

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0), *other = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *here = make(context, pd, cq, 32, ALL), *there = make(context, pd, other, 0, ALL);
	struct ibv_qp_init_attr connected = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };

	assert(here && there && here->qp_type == IBV_QPT_DRIVER);
	assert(!ibv_create_qp(pd, &connected) && errno == EOPNOTSUPP);
	assert(!make(context, pd, cq, 33, ALL) && errno == EINVAL);
	assert(!make(context, pd, cq, 0, ALL | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD) && errno == EOPNOTSUPP);
	start(here);
	start(there);

	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh.dgid = gid }, plain = { .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	char *memory = calloc(1, 4096);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	struct ibv_sge piece = { .addr = (uintptr_t)memory + 512, .length = 64, .lkey = mr->lkey };
	struct ibv_recv_wr receive = { .wr_id = 3, .sg_list = &piece, .num_sge = 1 }, *bad;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(here);
	struct ibv_wc done[4];

	assert(ah && mr && qp && qp == (void *)here && !ibv_create_ah(pd, &plain));
	assert(!ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && errno == EOPNOTSUPP);

	/* A message, inline, with immediate data. No GRH is before it. */
	strcpy(memory, "message");
	assert(!ibv_post_recv(there, &receive, &bad));
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_send_imm(qp, htobe32(0x55));
	ibv_wr_set_inline_data(qp, memory, 8);
	ibv_wr_set_ud_addr(qp, ah, there->qp_num, QKEY);
	assert(!ibv_wr_complete(qp) && only(cq, 1) == IBV_WC_SUCCESS);
	assert(ibv_poll_cq(other, 4, done) == 1 && done[0].opcode == IBV_WC_RECV && done[0].byte_len == 8);
	assert(done[0].wc_flags == IBV_WC_WITH_IMM && be32toh(done[0].imm_data) == 0x55 && !strcmp(memory + 512, "message"));

	/* Writes and reads in one list: their completions are in another order. */
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	qp->wr_id = 10;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 1024);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	ibv_wr_set_ud_addr(qp, ah, there->qp_num, QKEY);
	qp->wr_id = 11;
	ibv_wr_rdma_read(qp, mr->rkey, (uintptr_t)memory + 512);
	piece.addr = (uintptr_t)memory + 2048;
	piece.length = 8;
	ibv_wr_set_sge_list(qp, 1, &piece);
	ibv_wr_set_ud_addr(qp, ah, there->qp_num, QKEY);
	assert(!ibv_wr_complete(qp) && ibv_poll_cq(cq, 4, done) == 2);
	assert(done[0].wr_id == 11 && done[1].wr_id == 10 && !done[0].status && !done[1].status);
	assert(!strcmp(memory + 1024, "message") && !strcmp(memory + 2048, "message"));

	/* What the provider refuses: no completion, inline data of a write; nothing of the list is posted. */
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
	ibv_wr_set_ud_addr(qp, ah, there->qp_num, QKEY);
	assert(ibv_wr_complete(qp) == EINVAL);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory);
	ibv_wr_set_inline_data(qp, memory, 8);
	ibv_wr_set_ud_addr(qp, ah, there->qp_num, QKEY);
	assert(ibv_wr_complete(qp) == EINVAL && !ibv_poll_cq(cq, 4, done));

	/* Errors end the request, not the queue pair. */
	for (int i = 0; i < 2; i++) {
		ibv_wr_start(qp);
		qp->wr_id = 20 + i;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, i ? mr->rkey : 0, (uintptr_t)memory + 1024);
		ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
		ibv_wr_set_ud_addr(qp, ah, there->qp_num, i ? QKEY + 1 : QKEY);
		assert(!ibv_wr_complete(qp));
		assert(only(cq, 20 + i) == (i ? IBV_WC_REM_INV_RD_REQ_ERR : IBV_WC_REM_ACCESS_ERR));
		assert(here->state == IBV_QPS_RTS && there->state == IBV_QPS_RTS);
	}

	assert(!ibv_destroy_qp(here) && !ibv_destroy_qp(there) && !ibv_destroy_ah(ah) && !ibv_dereg_mr(mr));
	assert(!ibv_destroy_cq(cq) && !ibv_destroy_cq(other) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	ibv_free_device_list(list);
	return 0;
}
