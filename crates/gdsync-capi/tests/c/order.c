/*
 * A stream executes a list in order: it stops at each wait until the CPU writes the word, for each of the four conditions, in host
 * memory, GPU memory and pinned memory; and six hundred descriptors in one post.
 */
#include "check.h"

enum { STOP, FAR, BYTES = 16 };

/* Words with their CPU and GPU addresses. */
struct place {
    uint32_t *cpu;
    char *gpu;
    int type;
};

static void in_order(CUstream stream, struct place at, int flush)
{
    const int wait = at.type | flush;
    char *const stop = at.gpu + 4 * STOP, *const far = at.gpu + 4 * FAR, *const bytes = at.gpu + 4 * BYTES;
    uint32_t source[16];
    for (int i = 0; i < 16; ++i)
        source[i] = 0x100 + i;
    memset(at.cpu, 0, 4096);
    gds_descriptor_t list[] = {
        write_word(far, 1, at.type),
        wait_for(stop, 7, GDS_WAIT_COND_EQ, wait),
        write_word(far, 2, at.type | GDS_WRITE_PRE_BARRIER),
        /* Satisfied at once: 7 - 0xfffffff0 = 23 is not negative. */
        wait_for(stop, 0xfffffff0, GDS_WAIT_COND_GEQ, wait),
        write_word(bytes, 0, at.type),
        write_bytes(bytes, source, sizeof source, at.type | GDS_WRITE_MEMORY_PRE_BARRIER_SYS),
        write_bytes(bytes + 64, source, 4, at.type | GDS_WRITE_MEMORY_POST_BARRIER_SYS),
        write_word(far, 3, at.type),
        wait_for(stop, 0x30, GDS_WAIT_COND_AND, wait),
        write_word(far, 4, at.type),
        wait_for(stop, ~0x20u, GDS_WAIT_COND_NOR, wait),
        write_word(far, 5, at.type),
    };
    store(at.cpu + STOP, 0x80000000);
    EQUALS(0, gds_stream_post_descriptors(stream, sizeof list / sizeof list[0], list, 0));
    /* The list and the source of the write can be reused. */
    memset(list, 0xee, sizeof list);
    memset(source, 0xee, sizeof source);

    until(at.cpu + FAR, 1);
    EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    store(at.cpu + STOP, 8);
    usleep(2000);
    EQUALS(1, seen(at.cpu + FAR));
    store(at.cpu + STOP, 7);
    until(at.cpu + FAR, 3);
    EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    for (int i = 0; i < 16; ++i)
        EQUALS(0x100 + i, seen(at.cpu + BYTES + i));
    EQUALS(0x100, seen(at.cpu + BYTES + 16));
    EQUALS(0, seen(at.cpu + BYTES + 17));
    store(at.cpu + STOP, 0x4f);
    usleep(2000);
    EQUALS(3, seen(at.cpu + FAR));
    /* A bit of 0x30; bit 5, which NOR requires to be clear, is set. */
    store(at.cpu + STOP, 0x20);
    until(at.cpu + FAR, 4);
    usleep(2000);
    EQUALS(4, seen(at.cpu + FAR));
    store(at.cpu + STOP, ~0x20u);
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(5, seen(at.cpu + FAR));
}

/* A wait by GEQ is not satisfied by the preceding value. */
static void cyclic(CUstream stream, struct place at)
{
    memset(at.cpu, 0, 4096);
    gds_descriptor_t list[] = {
        wait_for(at.gpu, 0xffffffff, GDS_WAIT_COND_GEQ, at.type),
        write_word(at.gpu + 4, 1, at.type),
        wait_for(at.gpu, 1, GDS_WAIT_COND_GEQ, at.type),
        write_word(at.gpu + 4, 2, at.type),
    };
    store(at.cpu, 0xfffffffe);
    EQUALS(0, gds_stream_post_descriptors(stream, 4, list, 0));
    usleep(2000);
    EQUALS(0, seen(at.cpu + 1));
    store(at.cpu, 0);
    until(at.cpu + 1, 1);
    EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    store(at.cpu, 1);
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(2, seen(at.cpu + 1));
}

/* More than one batch of CUDA, after a wait, so that none is executed early. */
static void many(CUstream stream, struct place at)
{
    enum { COUNT = 600 };
    static gds_descriptor_t list[COUNT];
    memset(at.cpu, 0, 4096);
    list[0] = wait_for(at.gpu, 1, GDS_WAIT_COND_EQ, at.type);
    for (int i = 1; i < COUNT; ++i)
        list[i] = write_word(at.gpu + 4 * i, 1000 + i, at.type);
    EQUALS(0, gds_stream_post_descriptors(stream, COUNT, list, 0));
    usleep(2000);
    for (int i = 1; i < COUNT; ++i)
        EQUALS(0, seen(at.cpu + i));
    store(at.cpu, 1);
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    for (int i = 1; i < COUNT; ++i)
        EQUALS(1000 + i, seen(at.cpu + i));
}

int main(void)
{
    start();
    CUstream stream = new_stream();
    /* The default stream, too. */
    const CUstream streams[] = {stream, NULL};
    gds_mem_desc_t host = {0}, gpu = {0};
    EQUALS(0, gds_alloc_mapped_memory(&host, 4096, GDS_MEMORY_HOST));
    EQUALS(0, gds_alloc_mapped_memory(&gpu, 4096, GDS_MEMORY_GPU));
    CHECK(host.d_ptr && host.h_ptr && !host.bar_ptr && host.alloc_size == 4096 && host.flags == GDS_MEMORY_HOST);
    CHECK(gpu.d_ptr && gpu.h_ptr && gpu.bar_ptr && gpu.alloc_size == 4096 && gpu.flags == GDS_MEMORY_GPU && gpu.mh.h);
    for (int i = 0; i < 1024; ++i)
        EQUALS(0, ((uint32_t *)host.h_ptr)[i]);
    void *pinned, *plain = malloc(3 * 4096);
    EQUALS(CUDA_SUCCESS, cuMemHostAlloc(&pinned, 4096, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    const struct place places[] = {
        {host.h_ptr, host.h_ptr, GDS_MEMORY_HOST},
        {gpu.h_ptr, (char *)gpu.d_ptr, GDS_MEMORY_GPU},
        {pinned, pinned, GDS_MEMORY_GPU},
        /* Ordinary memory that does not start at a page. */
        {(uint32_t *)((char *)plain + 100), (char *)plain + 100, GDS_MEMORY_HOST},
        /* Pinned memory as GDS_MEMORY_HOST, which libgdsync rejects. */
        {pinned, pinned, GDS_MEMORY_HOST},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; ++i) {
        for (size_t s = 0; s < 2; ++s) {
            in_order(streams[s], places[i], 0);
            in_order(streams[s], places[i], GDS_WAIT_POST_FLUSH_REMOTE);
            cyclic(streams[s], places[i]);
            many(streams[s], places[i]);
        }
    }
    EQUALS(0, gds_free_mapped_memory(&host));
    EQUALS(0, gds_free_mapped_memory(&gpu));
    CHECK(!host.d_ptr && !host.h_ptr && !host.alloc_size && !gpu.d_ptr && !gpu.h_ptr && !gpu.mh.h);
    EQUALS(EINVAL, gds_free_mapped_memory(&host));
    EQUALS(EINVAL, gds_free_mapped_memory(&gpu));
    EQUALS(CUDA_SUCCESS, cuStreamDestroy(stream));
    puts("order: ok");
    return 0;
}
