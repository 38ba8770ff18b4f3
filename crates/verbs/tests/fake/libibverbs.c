/*
 * A fake libibverbs.so.1 for tests, compiled with the machine's own headers. FAKE_VERBS selects its behaviour:
 *   sound       two devices, mlx5_0 (dma-buf refused as bad file) and mlx4_0 (no such operation)
 *   none        no device
 *   unserved    mlx5_0 alone: the kernel's other device has no provider
 *   error       the list fails with EPERM
 *   closed      devices do not open: EACCES
 *   no-pd       no protection domain: ENOMEM
 * With -DOLD it has nothing newer than rdma-core 30: no GID table, no dma-buf, no device index.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr

static int is(const char *wanted)
{
	const char *behaviour = getenv("FAKE_VERBS");

	return behaviour && !strcmp(behaviour, wanted);
}

static struct ibv_device devices[2] = {
	{ .name = "mlx5_0", .dev_name = "uverbs0", .node_type = IBV_NODE_CA },
	{ .name = "mlx4_0", .dev_name = "uverbs1", .node_type = IBV_NODE_CA },
};

static struct verbs_context contexts[2];
static struct ibv_pd pds[2];

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t length)
{
	if (port != 1 || length != sizeof(*attr))
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = context->device == &devices[0] ? IBV_MTU_4096 : IBV_MTU_1024;
	attr->gid_tbl_len = 4;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->lid = 7;
	return 0;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(3, sizeof(*list));
	int n = is("none") ? 0 : is("unserved") ? 1 : 2;

	if (is("error")) {
		free(list);
		errno = EPERM;
		return NULL;
	}
	for (int i = 0; i < n; i++)
		list[i] = &devices[i];
	if (count)
		*count = n;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return htobe64(0x0002c90300000001ull);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	int i = device - devices;

	if (is("closed")) {
		errno = EACCES;
		return NULL;
	}
	contexts[i].sz = sizeof(contexts[i]);
	contexts[i].query_port = query_port;
	contexts[i].context.device = device;
	contexts[i].context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	return &contexts[i].context;
}

int ibv_close_device(struct ibv_context *context)
{
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "28.39.1002");
	attr->vendor_id = 0x02c9;
	attr->vendor_part_id = 4129;
	attr->max_mr_size = 1ull << 40;
	attr->max_qp = 131072;
	attr->max_mr = 16777216;
	attr->phys_port_cnt = 1;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	int i = context->device - devices;

	if (is("no-pd")) {
		errno = ENOMEM;
		return NULL;
	}
	pds[i].context = context;
	return &pds[i];
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return 0;
}

int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	/* The extended context has its own function. */
	return EOPNOTSUPP;
}

#ifndef OLD
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t most, uint32_t flags,
			     size_t size)
{
	if (size != sizeof(*entries) || most < 2)
		return -EINVAL;
	memset(entries, 0, 2 * sizeof(*entries));
	for (int i = 0; i < 2; i++) {
		entries[i].gid_index = 2 * i;
		entries[i].port_num = 1;
		entries[i].gid_type = i ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
		entries[i].ndev_ifindex = 3;
		entries[i].gid.raw[10] = 0xff;
		entries[i].gid.raw[11] = 0xff;
		entries[i].gid.raw[12] = 192;
		entries[i].gid.raw[14] = 2;
		entries[i].gid.raw[15] = 1;
	}
	return 2;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	errno = pd == &pds[0] ? EBADF : EOPNOTSUPP;
	return NULL;
}
#endif
