/*
 * The CPU executes a list as a stream does: in host memory, mapped GPU memory and pinned memory, but not in unmapped GPU memory.
 */
#include "check.h"

#include <pthread.h>

static void *let_go(void *word)
{
    usleep(3000);
    store(word, 1);
    until((uint32_t *)word + 1, 1);
    /* Negative by GEQ, and bit 2 of it clear. */
    store(word, 0x80000010);
    until((uint32_t *)word + 1, 2);
    store(word, 5);
    until((uint32_t *)word + 1, 3);
    store(word, 0xfffffffb);
    return NULL;
}

static void all(uint32_t *cpu, char *gpu, int type)
{
    uint32_t source[256];
    for (int i = 0; i < 256; ++i)
        source[i] = i * i;
    memset(cpu, 0, 4096);
    pthread_t other;
    EQUALS(0, pthread_create(&other, NULL, let_go, cpu));
    gds_descriptor_t list[] = {
        write_bytes(gpu + 1024, source, 1024, type | GDS_WRITE_MEMORY_PRE_BARRIER_SYS),
        wait_for(gpu, 1, GDS_WAIT_COND_EQ, type),
        write_word(gpu + 4, 1, type),
        wait_for(gpu, 0x80000000, GDS_WAIT_COND_AND, type | GDS_WAIT_POST_FLUSH),
        write_word(gpu + 4, 2, type | GDS_WRITE_PRE_BARRIER),
        wait_for(gpu, 5, GDS_WAIT_COND_GEQ, type),
        write_word(gpu + 4, 3, type),
        /* Bit 2 clear. */
        wait_for(gpu, 0xfffffffb, GDS_WAIT_COND_NOR, type),
        write_word(gpu + 4, 4, type),
    };
    EQUALS(0, gds_post_descriptors(sizeof list / sizeof list[0], list, 0));
    EQUALS(4, seen(cpu + 1));
    EQUALS(0, pthread_join(other, NULL));
    for (int i = 0; i < 256; ++i)
        EQUALS(i * i, cpu[256 + i]);
    EQUALS(0, cpu[255]);
    EQUALS(0, cpu[512]);
}

int main(void)
{
    start();
    gds_mem_desc_t gpu = {0};
    EQUALS(0, gds_alloc_mapped_memory(&gpu, 4096, GDS_MEMORY_GPU));
    void *plain = malloc(4096), *pinned;
    EQUALS(CUDA_SUCCESS, cuMemHostAlloc(&pinned, 4096, 0));
    all(plain, plain, GDS_MEMORY_HOST);
    all(plain, plain, GDS_MEMORY_IO);
    all(pinned, pinned, GDS_MEMORY_GPU);
    all(gpu.h_ptr, (char *)gpu.d_ptr, GDS_MEMORY_GPU);

    /* Unmapped GPU memory, memory after the end of a mapping, and invalid memory: nothing is executed. */
    CUdeviceptr bare;
    EQUALS(CUDA_SUCCESS, cuMemAlloc(&bare, 4096));
    uint32_t source[2] = {7, 7};
    const uint64_t away[] = {bare, gpu.d_ptr + 4096, gpu.d_ptr - 4, 0x1000, (uint64_t)plain};
    for (size_t i = 0; i < sizeof away / sizeof away[0]; ++i) {
        store(plain, 0);
        gds_descriptor_t list[] = {write_word(plain, 1, GDS_MEMORY_HOST), write_word((void *)away[i], 7, GDS_MEMORY_GPU)};
        EQUALS(EFAULT, gds_post_descriptors(2, list, 0));
        EQUALS(0, seen(plain));
    }
    gds_descriptor_t over = write_bytes((char *)gpu.d_ptr + 4092, source, 8, GDS_MEMORY_GPU);
    EQUALS(EFAULT, gds_post_descriptors(1, &over, 0));
    gds_descriptor_t last = write_bytes((char *)gpu.d_ptr + 4088, source, 8, GDS_MEMORY_GPU);
    EQUALS(0, gds_post_descriptors(1, &last, 0));
    EQUALS(7, ((uint32_t *)gpu.h_ptr)[1023]);
    EQUALS(0, gds_free_mapped_memory(&gpu));
    EQUALS(EFAULT, gds_post_descriptors(1, &last, 0));
    free(plain);
    puts("cpu: ok");
    return 0;
}
