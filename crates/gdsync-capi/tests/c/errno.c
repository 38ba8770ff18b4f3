/*
 * Prints the first error of: a stream write to GPU memory, then to host memory, which is CUDA's pinned memory with the argument "pinned".
 * A CUDA function is made to fail. With the argument cuInit there is no context either.
 */
#include "check.h"

int main(int count, char **arguments)
{
    static uint32_t word;
    uint32_t *device = &word;
    gds_mem_desc_t desc = {0};
    gds_sim_begin();
    CHECK(count == 2);
    if (strcmp(arguments[1], "cuInit")) {
        start();
        EQUALS(0, gds_alloc_mapped_memory(&desc, 64, GDS_MEMORY_GPU));
        device = (uint32_t *)desc.d_ptr;
    }
    gds_descriptor_t list = write_word(device, 1, GDS_MEMORY_GPU);
    int answer = gds_stream_post_descriptors(NULL, 1, &list, 0);
    if (!answer) {
        void *host = &word;
        if (!strcmp(arguments[1], "pinned"))
            EQUALS(CUDA_SUCCESS, cuMemHostAlloc(&host, 4096, 0));
        list = write_word(host, 1, GDS_MEMORY_HOST);
        answer = gds_stream_post_descriptors(NULL, 1, &list, 0);
    }
    printf("%d\n", answer);
    return 0;
}
