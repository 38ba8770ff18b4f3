/*
 * Host memory is registered once per page, on first use; registrations of other code are used and kept; registrations of the library's
 * own memory end with that memory. The test that runs this program counts the CUDA calls.
 */
#include "check.h"

#define PAGE 4096

static CUstream stream;

static void write_it(void *word, uint32_t value)
{
    gds_descriptor_t list = write_word(word, value, GDS_MEMORY_HOST);
    EQUALS(0, gds_stream_post_descriptors(stream, 1, &list, 0));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(value, seen(word));
}

static int is_registered(void *word)
{
    CUdeviceptr device;
    return cuMemHostGetDevicePointer(&device, word, 0) == CUDA_SUCCESS;
}

static char *pages(size_t count)
{
    void *made;
    EQUALS(0, posix_memalign(&made, PAGE, count * PAGE));
    memset(made, 0, count * PAGE);
    return made;
}

int main(void)
{
    start();
    stream = new_stream();
    char *const memory = pages(8);

    /* 1: page 0 once, for any of its words; page 1 is not registered. */
    write_it(memory, 1);
    write_it(memory + 8, 2);
    write_it(memory + PAGE - 4, 3);
    CHECK(is_registered(memory) && !is_registered(memory + PAGE));

    /* 2: bytes across a page boundary: only page 1 is new. */
    uint32_t source[4] = {1, 2, 3, 4};
    gds_descriptor_t over = write_bytes(memory + PAGE - 8, source, sizeof source, GDS_MEMORY_HOST);
    EQUALS(0, gds_stream_post_descriptors(stream, 1, &over, 0));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    CHECK(!memcmp(memory + PAGE - 8, source, sizeof source));
    CHECK(is_registered(memory + PAGE) && !is_registered(memory + 2 * PAGE));

    /* 3: the program's registration is used (CUDA returns 712) and kept. */
    EQUALS(CUDA_SUCCESS, cuMemHostRegister(memory + 2 * PAGE, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    write_it(memory + 2 * PAGE + 4, 4);
    write_it(memory + 2 * PAGE + 8, 5);
    CHECK(is_registered(memory + 2 * PAGE));
    EQUALS(CUDA_SUCCESS, cuMemHostUnregister(memory + 2 * PAGE));
    /* 4: after it the library registers the page itself. */
    CHECK(!is_registered(memory + 2 * PAGE));
    write_it(memory + 2 * PAGE + 4, 6);
    CHECK(is_registered(memory + 2 * PAGE));

    /* 5: the program ends the library's registration; the next use registers again. */
    EQUALS(CUDA_SUCCESS, cuMemHostUnregister(memory));
    write_it(memory, 7);
    CHECK(is_registered(memory));

    /* 6, 7, 8: two pages, one registered by the program: both together fail (712), then each separately. */
    EQUALS(CUDA_SUCCESS, cuMemHostRegister(memory + 5 * PAGE, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    gds_descriptor_t mixed = write_bytes(memory + 5 * PAGE - 8, source, sizeof source, GDS_MEMORY_HOST);
    EQUALS(0, gds_stream_post_descriptors(stream, 1, &mixed, 0));
    EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    CHECK(!memcmp(memory + 5 * PAGE - 8, source, sizeof source));
    CHECK(is_registered(memory + 4 * PAGE) && !is_registered(memory + 6 * PAGE));

    /* A word for a kernel: the same page needs no registration; a GPU address is unchanged. */
    gds_mlx5_dword_wait_info_t info = {0};
    EQUALS(0, gds_mlx5_get_dword_wait_info((uint32_t *)memory + 3, 42, GDS_MEMORY_HOST, &info));
    CHECK(info.ptr == (uint32_t *)memory + 3 && info.value == 42);
    EQUALS(0, gds_mlx5_get_dword_wait_info((uint32_t *)0x7000, 43, GDS_MEMORY_GPU | GDS_WAIT_POST_FLUSH, &info));
    CHECK(info.ptr == (uint32_t *)0x7000 && info.value == 43);

    /* 9 and its end: the library's own memory, twice, so that nothing of the first remains. */
    for (int i = 0; i < 2; ++i) {
        gds_mem_desc_t desc = {0};
        EQUALS(0, gds_alloc_mapped_memory(&desc, 3 * PAGE, GDS_MEMORY_HOST));
        void *const host = desc.h_ptr;
        CHECK(is_registered(host) && is_registered((char *)host + 3 * PAGE - 4));
        write_it((char *)host + 2 * PAGE, 8);
        EQUALS(0, gds_free_mapped_memory(&desc));
        CHECK(!is_registered(host));
    }
    free(memory);
    puts("registration: ok");
    return 0;
}
