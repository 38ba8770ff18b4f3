/*
 * Two waits by NOR, in host and GPU memory: the stream reaches the second one when the first is satisfied. Pauses let the library's checker
 * see each step. Prints the GPU addresses of the two words.
 */
#include "check.h"

int main(void)
{
    start();
    CUstream stream = new_stream();
    gds_mem_desc_t host = {0}, gpu = {0};
    EQUALS(0, gds_alloc_mapped_memory(&host, 4096, GDS_MEMORY_HOST));
    EQUALS(0, gds_alloc_mapped_memory(&gpu, 4096, GDS_MEMORY_GPU));
    store(host.h_ptr, 0xffffffff);
    store(gpu.h_ptr, 0xffffffff);
    gds_descriptor_t list[] = {
        write_word((char *)host.h_ptr + 4, 1, GDS_MEMORY_HOST | GDS_WRITE_PRE_BARRIER),
        wait_for(host.h_ptr, ~0x20u, GDS_WAIT_COND_NOR, GDS_MEMORY_HOST),
        wait_for((char *)gpu.d_ptr, ~0x20u, GDS_WAIT_COND_NOR, GDS_MEMORY_GPU),
        wait_for((char *)gpu.d_ptr, 1, GDS_WAIT_COND_AND, GDS_MEMORY_GPU),
    };
    EQUALS(0, gds_stream_post_descriptors(stream, sizeof list / sizeof list[0], list, 0));
    until((char *)host.h_ptr + 4, 1);
    usleep(200 * 1000);
    store(host.h_ptr, 0xffffffdf);
    usleep(200 * 1000);
    EQUALS(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    store(gpu.h_ptr, 0xffffffdf);
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    usleep(200 * 1000);
    printf("%#llx %#llx\n", (unsigned long long)host.d_ptr, (unsigned long long)gpu.d_ptr);
    return 0;
}
