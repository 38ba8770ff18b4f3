/*
 * A CUDA kernel sends on an mlx5 queue pair that is connected to itself: each thread of a warp builds an RDMA WRITE, one thread rings for all and
 * polls. The host creates the queue pair by verbs and passes its memory to the GPU by mlx5dv and cudaHostRegister.
 *
 *   nvcc -std=c++17 -I PREFIX/include kernel_send.cu -o kernel_send -libverbs -lmlx5
 *   ./kernel_send mlx5_0 GID_INDEX
 *
 * The GPU rings the doorbell itself: see `gdr doctor --profile gpu-initiated --live` if cudaHostRegister answers 800.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <gdsync.h>
#include <gdsync/device.cuh>

static const uint32_t MESSAGES = 32, BYTES = 64;

#define CHECK(holds, what)                                                                                                                   \
    do {                                                                                                                                     \
        if (!(holds)) {                                                                                                                      \
            std::fprintf(stderr, "cannot %s\n", what);                                                                                       \
            std::exit(1);                                                                                                                    \
        }                                                                                                                                    \
    } while (0)

/* Sends MESSAGES messages by one warp; the answer of the first poll that is not 0, or 0. */
__global__ void send(gdsync::send_queue_t *queue, unsigned char *from, uint64_t from_address, uint64_t to_address, uint32_t lkey, uint32_t rkey,
                     int *answer)
{
    const uint32_t lane = threadIdx.x;
    for (uint32_t i = 0; i < BYTES; i++)
        from[lane * BYTES + i] = (unsigned char)(lane * 7 + i);
    gdsync::send_range_t local = {from_address + lane * BYTES, lkey, BYTES};
    gdsync::device::build_write(*queue, lane, local, to_address + lane * BYTES, rkey);
    __syncwarp();
    if (lane != 0)
        return;
    gdsync::device::ring(*queue, MESSAGES);
    *answer = 0;
    for (uint32_t i = 0; i < MESSAGES && *answer == 0; i++)
        *answer = gdsync::device::poll(*queue, 1LL << 31, NULL);
}

/* The GPU's address of host memory, whose pages are registered on the way. */
template <typename T> static T *mapped(T *start, size_t bytes, unsigned flags)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)start & ~(page - 1);
    const uintptr_t end = ((uintptr_t)start + bytes + page - 1) & ~(page - 1);
    const cudaError_t error = cudaHostRegister((void *)first, end - first, flags | cudaHostRegisterMapped);
    if (error != cudaSuccess && error != cudaErrorHostMemoryAlreadyRegistered) {
        std::fprintf(stderr, "cudaHostRegister: %s (%d)\n", cudaGetErrorString(error), error);
        std::exit(1);
    }
    cudaGetLastError();
    void *there = NULL;
    CHECK(cudaHostGetDevicePointer(&there, (void *)start, 0) == cudaSuccess, "map memory for the GPU");
    return (T *)there;
}

static void connect(ibv_qp *qp, int gid_index)
{
    ibv_port_attr port = {};
    CHECK(ibv_query_port(qp->context, 1, &port) == 0, "query port 1");
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0, "modify to INIT");
    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = port.active_mtu;
    attr.dest_qp_num = qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.dlid = port.lid;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
    CHECK(ibv_query_gid(qp->context, 1, gid_index, &attr.ah_attr.grh.dgid) == 0, "query the GID");
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                            IBV_QP_MIN_RNR_TIMER) == 0,
          "modify to RTR");
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    CHECK(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "modify to RTS");
}

static ibv_context *open_device(const char *name)
{
    int count = 0;
    ibv_device **devices = ibv_get_device_list(&count);
    for (int i = 0; i < count; i++)
        if (std::strcmp(ibv_get_device_name(devices[i]), name) == 0)
            return ibv_open_device(devices[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "start: kernel_send DEVICE GID_INDEX");
    ibv_context *context = open_device(argv[1]);
    CHECK(context, "open the device");
    ibv_pd *pd = ibv_alloc_pd(context);
    CHECK(pd, "allocate a protection domain");
    ibv_cq *cq = ibv_create_cq(context, 63, NULL, NULL, 0);
    CHECK(cq, "create a completion queue");
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = 64;
    init.cap.max_send_sge = init.cap.max_recv_wr = init.cap.max_recv_sge = 1;
    ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp, "create a queue pair");
    connect(qp, std::atoi(argv[2]));

    mlx5dv_qp raw_qp = {};
    mlx5dv_cq raw_cq = {};
    mlx5dv_obj object = {};
    object.qp.in = qp;
    object.qp.out = &raw_qp;
    object.cq.in = cq;
    object.cq.out = &raw_cq;
    CHECK(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ) == 0, "read the queues (an mlx5 NIC?)");
    CHECK(raw_cq.cqe_size == 64 && raw_qp.sq.stride == 64, "use these queues: set MLX5_CQE_SIZE=64");

    gdsync::send_queue_t *queue = NULL;
    CHECK(cudaMallocManaged(&queue, sizeof *queue) == cudaSuccess, "allocate memory of CUDA");
    queue->ring = mapped((unsigned char *)raw_qp.sq.buf, (size_t)raw_qp.sq.wqe_cnt * 64, 0);
    queue->blocks = raw_qp.sq.wqe_cnt;
    queue->qpn = qp->qp_num;
    /* The receive queue's record comes first. */
    queue->record = mapped((uint32_t *)raw_qp.dbrec + 1, 4, 0);
    queue->doorbell = mapped((uint64_t *)raw_qp.bf.reg, 8, cudaHostRegisterIoMemory);
    queue->cqes = mapped((unsigned char *)raw_cq.buf, (size_t)raw_cq.cqe_cnt * 64, 0);
    queue->cqe_count = raw_cq.cqe_cnt;
    queue->cqe_record = mapped((uint32_t *)raw_cq.dbrec, 4, 0);
    queue->posted = queue->polled = 0;

    unsigned char *memory = NULL;
    int *answer = NULL;
    CHECK(cudaHostAlloc((void **)&memory, 2 * MESSAGES * BYTES, cudaHostAllocMapped) == cudaSuccess, "allocate host memory");
    CHECK(cudaMallocManaged(&answer, sizeof *answer) == cudaSuccess, "allocate memory of CUDA");
    std::memset(memory, 0, 2 * MESSAGES * BYTES);
    ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * MESSAGES * BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr, "register memory");
    const uint64_t address = (uint64_t)(uintptr_t)memory;
    send<<<1, MESSAGES>>>(queue, memory, address, address + MESSAGES * BYTES, mr->lkey, mr->rkey, answer);
    CHECK(cudaDeviceSynchronize() == cudaSuccess, "run the kernel");
    if (*answer != 0) {
        std::fprintf(stderr, "the kernel's poll answered %d\n", *answer);
        return 1;
    }
    CHECK(std::memcmp(memory, memory + MESSAGES * BYTES, MESSAGES * BYTES) == 0, "find the messages where they were sent");
    std::printf("%u messages, sent by a kernel\n", MESSAGES);
    return 0;
}
