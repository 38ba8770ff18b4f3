/*
 * Prints what the first of these answers that does not succeed: a word of GPU memory is written by a stream, then one of host
 * memory, with the argument "pinned" of CUDA's own. Something in CUDA was made to fail. With the argument cuInit there is no
 * context: that fails, too.
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
