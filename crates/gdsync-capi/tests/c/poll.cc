/*
 * gdsync/device.cuh's poll by a C++ compiler that plays CUDA's, for another program: reads completion queues from standard input, polls each
 * once, and writes what poll answered. Numbers are 32 bits of this machine: of each queue its number of CQEs, the CQEs polled before, and the
 * CQEs; of each answer the answer, the syndrome, the CQEs polled then, and the doorbell record as bytes.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#define __CUDACC__
#define __host__
#define __device__

static long long ticks;
static long long clock64() { return ticks++; }
static void __threadfence_block() {}
static void __threadfence_system() {}

#include <gdsync.h>
#include <gdsync/device.cuh>

int main()
{
    uint32_t head[2];
    while (std::fread(head, sizeof head, 1, stdin) == 1) {
        std::vector<uint64_t> cqes(head[0] * 8);
        if (std::fread(cqes.data(), 64, head[0], stdin) != head[0])
            return 1;
        uint32_t syndrome = 0xffffffff, record = 0xffffffff;
        gdsync::send_queue queue = {};
        queue.cqes = (unsigned char *)cqes.data();
        queue.cqe_count = head[0];
        queue.cqe_record = &record;
        queue.polled = head[1];
        const uint32_t answer = (uint32_t)gdsync::device::poll(queue, 0, &syndrome);
        const uint32_t found[4] = {answer, syndrome, queue.polled, record};
        if (std::fwrite(found, sizeof found, 1, stdout) != 1 || std::fflush(stdout) != 0)
            return 1;
    }
    return 0;
}
