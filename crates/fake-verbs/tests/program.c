/*
 * A program compiled with the machine's verbs.h, whose layouts and inline functions it uses, run with the fake library
 * (machines/two.json). Exits with 0, or aborts at a failed assertion.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

static struct ibv_qp *make(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr wanted = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &wanted);

	assert(qp && qp->state == IBV_QPS_RESET && qp->qp_type == IBV_QPT_RC);
	return qp;
}

static void start(struct ibv_qp *qp, uint32_t far, uint16_t lid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	assert(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_4096;
	attr.dest_qp_num = far;
	attr.rq_psn = 1;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr.dlid = lid;
	attr.ah_attr.port_num = 1;
	assert(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.sq_psn = 1;
	attr.max_rd_atomic = 1;
	assert(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	assert(qp->state == IBV_QPS_RTS);
}

int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	assert(count == 2 && !strcmp(ibv_get_device_name(list[0]), "mlx5_0"));
	assert(list[0]->node_type == IBV_NODE_CA && list[0]->transport_type == IBV_TRANSPORT_IB);

	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_port_attr port;
	struct ibv_gid_entry entries[4];

	assert(context && !ibv_query_port(context, 1, &port));
	assert(port.lid == 7 && port.state == IBV_PORT_ACTIVE && port.active_mtu == IBV_MTU_4096);
	assert(port.link_layer == IBV_LINK_LAYER_INFINIBAND && port.port_cap_flags2 == 0);
	assert(ibv_query_gid_table(context, entries, 4, 0) == 1 && entries[0].gid.raw[0] == 0xfe);
	assert(!ibv_query_gid_ex(context, 1, 0, entries, 0) && entries[0].gid_type == IBV_GID_TYPE_IB);

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, &count, channel, 0);
	struct ibv_qp *here = make(pd, cq), *there = make(pd, cq);

	start(here, there->qp_num, 7);
	start(there, here->qp_num, 7);

	char *memory = calloc(1, 4096);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
	struct ibv_recv_wr receive = { .wr_id = 3 }, *bad_receive;
	struct ibv_sge piece = { .addr = (uintptr_t)memory, .length = 6, .lkey = mr->lkey };
	struct ibv_send_wr write = {
		.wr_id = 4, .sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = 0x55,
		.wr.rdma = { .remote_addr = (uintptr_t)memory + 100, .rkey = mr->rkey },
	}, *bad_send;

	strcpy(memory, "hello");
	assert(!ibv_req_notify_cq(cq, 0));
	assert(!ibv_post_recv(there, &receive, &bad_receive));
	assert(!ibv_post_send(here, &write, &bad_send));
	assert(!strcmp(memory + 100, "hello"));

	struct ibv_cq *told;
	void *cookie;
	struct ibv_wc done[4];

	assert(!ibv_get_cq_event(channel, &told, &cookie) && told == cq && cookie == &count);
	ibv_ack_cq_events(cq, 1);
	assert(ibv_poll_cq(cq, 4, done) == 2);
	for (int i = 0; i < 2; i++) {
		int received = done[i].wr_id == 3;

		assert(done[i].status == IBV_WC_SUCCESS);
		assert(done[i].opcode == (received ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RDMA_WRITE));
		assert(done[i].qp_num == (received ? there : here)->qp_num);
		assert(!received || (done[i].byte_len == 6 && done[i].imm_data == 0x55 &&
				     done[i].wc_flags == IBV_WC_WITH_IMM));
	}

	write.wr.rdma.rkey = 0;
	assert(!ibv_post_send(here, &write, &bad_send));
	assert(ibv_poll_cq(cq, 4, done) == 1 && done[0].status == IBV_WC_REM_ACCESS_ERR);

	struct ibv_async_event event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr made;
	struct ibv_ah_attr to = { .dlid = 9, .port_num = 1 };

	assert(!ibv_get_async_event(context, &event));
	assert(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == there);
	ibv_ack_async_event(&event);
	assert(!ibv_query_qp(here, &attr, IBV_QP_STATE, &made));
	assert(attr.qp_state == IBV_QPS_ERR && here->state == IBV_QPS_ERR && made.recv_cq == cq);

	struct ibv_ah *ah = ibv_create_ah(pd, &to);

	assert(ah && ah->pd == pd && ah->context == context && !ibv_destroy_ah(ah));
	assert(!ibv_destroy_qp(here) && !ibv_destroy_qp(there) && !ibv_destroy_cq(cq));
	assert(!ibv_destroy_comp_channel(channel) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	assert(!ibv_close_device(context));
	ibv_free_device_list(list);
	return 0;
}
