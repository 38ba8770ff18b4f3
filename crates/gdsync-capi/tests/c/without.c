/* Linked with the released library and without CUDA: prints the result of a stream post. The CPU's post works. */
#include <stdio.h>

#include <gdsync.h>

int main(void)
{
    static uint32_t word;
    gds_descriptor_t list;
    list.tag = GDS_TAG_WRITE_VALUE32;
    if (gds_prepare_write_value32(&list.write32, &word, 5, GDS_MEMORY_HOST) || gds_post_descriptors(1, &list, 0) || word != 5)
        return 1;
    printf("%d\n", gds_stream_post_descriptors(NULL, 1, &list, 0));
    return word != 5;
}
