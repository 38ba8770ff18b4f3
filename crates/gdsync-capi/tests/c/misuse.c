/*
 * Every function with every kind of invalid argument. None crashes, each returns a positive errno, and nothing is written or posted to a
 * stream. First without a context, then with one.
 */
#include "check.h"

static uint32_t words[1024] __attribute__((aligned(4096)));

static void prepare(void)
{
    gds_wait_value32_t wait;
    gds_write_value32_t write;
    gds_write_memory_t memory;
    uint8_t *const to = (uint8_t *)words;
    const uint8_t *const from = (const uint8_t *)(words + 512);
    memset(&wait, 0xcc, sizeof wait);
    memset(&write, 0xcc, sizeof write);
    memset(&memory, 0xcc, sizeof memory);

    EQUALS(EINVAL, gds_prepare_wait_value32(NULL, words, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_prepare_write_value32(NULL, words, 0, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_prepare_write_memory(NULL, to, from, 4, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_prepare_wait_value32(&wait, NULL, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_prepare_write_value32(&write, NULL, 0, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_prepare_write_memory(&memory, NULL, from, 4, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_prepare_write_memory(&memory, to, NULL, 4, GDS_MEMORY_HOST));
    for (int off = 1; off < 4; ++off) {
        uint32_t *const askew = (uint32_t *)(to + off);
        EQUALS(EINVAL, gds_prepare_wait_value32(&wait, askew, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST));
        EQUALS(EINVAL, gds_prepare_write_value32(&write, askew, 0, GDS_MEMORY_HOST));
        EQUALS(EINVAL, gds_prepare_write_memory(&memory, to + off, from, 4, GDS_MEMORY_HOST));
    }
    const int flags[] = {0, 3, 5, 6, 7, -1, GDS_MEMORY_HOST | 1 << 6, 1 << 4, GDS_MEMORY_GPU | 1 << 30};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; ++i) {
        EQUALS(EINVAL, gds_prepare_wait_value32(&wait, words, 0, GDS_WAIT_COND_EQ, flags[i]));
        EQUALS(EINVAL, gds_prepare_write_value32(&write, words, 0, flags[i]));
        EQUALS(EINVAL, gds_prepare_write_memory(&memory, to, from, 4, flags[i]));
    }
    /* Flags of another function. */
    EQUALS(EINVAL, gds_prepare_wait_value32(&wait, words, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST | GDS_WRITE_PRE_BARRIER));
    EQUALS(EINVAL, gds_prepare_write_value32(&write, words, 0, GDS_MEMORY_HOST | GDS_WAIT_POST_FLUSH));
    EQUALS(EINVAL, gds_prepare_write_memory(&memory, to, from, 4, GDS_MEMORY_HOST | GDS_WAIT_POST_FLUSH));
    EQUALS(EINVAL, gds_prepare_wait_value32(&wait, words, 0, (gds_wait_cond_flag_t)4, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_prepare_wait_value32(&wait, words, 0, (gds_wait_cond_flag_t)-1, GDS_MEMORY_HOST));
    const size_t counts[] = {0, 1, 3, 6, 1028, (size_t)-4, (size_t)-1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i)
        EQUALS(EINVAL, gds_prepare_write_memory(&memory, to, from, counts[i], GDS_MEMORY_HOST));
    /* Nothing was written. */
    CHECK(wait.value == 0xcccccccc && write.value == 0xcccccccc && (uint32_t)memory.flags == 0xcccccccc);

    EQUALS(0, gds_prepare_wait_value32(&wait, words + 1, 5, GDS_WAIT_COND_NOR, GDS_MEMORY_IO | GDS_WAIT_POST_FLUSH));
    CHECK(wait.ptr == words + 1 && wait.value == 5 && wait.cond_flags == GDS_WAIT_COND_NOR && wait.flags == (4 | 8));
    EQUALS(0, gds_prepare_write_value32(&write, words + 2, 6, GDS_MEMORY_GPU | GDS_WRITE_PRE_BARRIER));
    CHECK(write.ptr == words + 2 && write.value == 6 && write.flags == (1 | 16));
    EQUALS(0, gds_prepare_write_memory(&memory, to, from, 1024, GDS_MEMORY_HOST | 1 << 4 | 1 << 5));
    CHECK(memory.dest == to && memory.src == from && memory.count == 1024 && memory.flags == (2 | 16 | 32));
}

/* Lists of which nothing may be executed, by stream and by CPU. The first descriptor is valid. */
static int post(CUstream stream, int by_cpu, size_t count, gds_descriptor_t *list, int flags)
{
    return by_cpu ? gds_post_descriptors(count, list, flags) : gds_stream_post_descriptors(stream, count, list, flags);
}

static void lists(CUstream stream, int by_cpu)
{
    gds_descriptor_t list[2];
    memset(list, 0, sizeof list);
    memset(words, 0, sizeof words);
    EQUALS(0, post(stream, by_cpu, 0, NULL, 0));
    EQUALS(0, post(stream, by_cpu, 0, list, 0));
    EQUALS(EINVAL, post(stream, by_cpu, 1, NULL, 0));
    EQUALS(EINVAL, post(stream, by_cpu, (size_t)-1, NULL, 0));
    EQUALS(EINVAL, post(stream, by_cpu, (size_t)-1, list, 0));
    EQUALS(EINVAL, post(stream, by_cpu, ((size_t)1 << 60), list, 0));
    EQUALS(EINVAL, post(stream, by_cpu, 1, (gds_descriptor_t *)((char *)list + 1), 0));
    list[0] = write_word(words, 1, GDS_MEMORY_HOST);
    EQUALS(EINVAL, post(stream, by_cpu, 1, list, 1));
    EQUALS(EINVAL, post(stream, by_cpu, 1, list, -1));

    /* Descriptors that a program may fill in without gds_prepare_…. */
    for (int i = 0; i < 18; ++i) {
        gds_descriptor_t bad;
        int expected = EINVAL;
        memset(&bad, 0, sizeof bad);
        switch (i) {
        case 0: bad.tag = GDS_TAG_SEND; break;
        case 1: bad.tag = GDS_TAG_WAIT; break;
        case 2: bad.tag = GDS_TAG_SEND, bad.send = (gds_send_request_t *)words; break;
        case 3: bad.tag = (gds_tag_t)5; break;
        case 4: bad.tag = (gds_tag_t)-1; break;
        case 5: bad.tag = GDS_TAG_WAIT_VALUE32; break;
        case 6: bad.tag = GDS_TAG_WRITE_VALUE32; break;
        case 7: bad.tag = GDS_TAG_WRITE_MEMORY; break;
        case 8: bad = wait_for(words, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST), bad.wait32.ptr = NULL; break;
        case 9: bad = wait_for(words, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST), bad.wait32.flags = 3; break;
        case 10: bad = wait_for(words, 0, GDS_WAIT_COND_EQ, GDS_MEMORY_HOST), bad.wait32.cond_flags = (gds_wait_cond_flag_t)9; break;
        case 11: bad = write_word(words, 0, GDS_MEMORY_HOST), bad.write32.ptr = NULL; break;
        case 12: bad = write_word(words, 0, GDS_MEMORY_HOST), bad.write32.flags = -1; break;
        case 13: bad = write_word(words, 0, GDS_MEMORY_GPU), bad.write32.ptr = (uint32_t *)((char *)words + 2); break;
        case 14: bad = write_bytes(words, words, 8, GDS_MEMORY_HOST), bad.writemem.src = NULL; break;
        case 15: bad = write_bytes(words, words, 8, GDS_MEMORY_HOST), bad.writemem.dest = NULL; break;
        case 16: bad = write_bytes(words, words, 8, GDS_MEMORY_HOST), bad.writemem.count = 2000; break;
        case 17: bad = write_bytes(words, words, 8, GDS_MEMORY_HOST), bad.writemem.flags = 0; break;
        }
        list[1] = bad;
        EQUALS(expected, post(stream, by_cpu, 2, list, 0));
        EQUALS(0, seen(words));
    }
    EQUALS(0, post(stream, by_cpu, 1, list, 0));
    if (!by_cpu)
        EQUALS(CUDA_SUCCESS, cuStreamSynchronize(stream));
    EQUALS(1, seen(words));
}

static void memory(CUcontext context)
{
    gds_mlx5_dword_wait_info_t info;
    gds_mem_desc_t desc, untouched;
    memset(&desc, 0xcc, sizeof desc);
    untouched = desc;
    EQUALS(EINVAL, gds_alloc_mapped_memory(NULL, 64, GDS_MEMORY_HOST));
    EQUALS(0, gds_alloc_mapped_memory(NULL, 0, GDS_MEMORY_HOST));
    EQUALS(0, gds_alloc_mapped_memory(&desc, 0, GDS_MEMORY_GPU));
    EQUALS(EINVAL, gds_alloc_mapped_memory(&desc, 64, 0));
    EQUALS(EINVAL, gds_alloc_mapped_memory(&desc, 64, GDS_MEMORY_IO));
    EQUALS(EINVAL, gds_alloc_mapped_memory(&desc, 64, GDS_MEMORY_GPU | GDS_MEMORY_HOST));
    EQUALS(ENOMEM, gds_alloc_mapped_memory(&desc, (size_t)-1, GDS_MEMORY_HOST));
    EQUALS(ENOMEM, gds_alloc_mapped_memory(&desc, (size_t)1 << 62, GDS_MEMORY_HOST));
    EQUALS(ENOMEM, gds_alloc_mapped_memory(&desc, (size_t)-1, GDS_MEMORY_GPU));
    CHECK(!memcmp(&desc, &untouched, sizeof desc));

    EQUALS(EINVAL, gds_free_mapped_memory(NULL));
    EQUALS(EINVAL, gds_free_mapped_memory(&desc));
    const int types[] = {GDS_MEMORY_GPU, GDS_MEMORY_HOST, GDS_MEMORY_IO, 0, 3};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
        memset(&desc, 0, sizeof desc);
        desc.flags = types[i];
        EQUALS(EINVAL, gds_free_mapped_memory(&desc));
        desc.d_ptr = (CUdeviceptr)words;
        desc.h_ptr = words;
        desc.alloc_size = sizeof words;
        desc.mh.h = 1;
        EQUALS(EINVAL, gds_free_mapped_memory(&desc));
        CHECK(desc.h_ptr == words);
    }
    for (size_t i = 0; i < 2; ++i) {
        EQUALS(0, gds_alloc_mapped_memory(&desc, 100, types[i]));
        const gds_mem_desc_t kept = desc;
        /* Wrong pointers, then the memory itself, then a second free. */
        gds_mem_desc_t wrong = desc;
        wrong.h_ptr = (char *)wrong.h_ptr + 4;
        EQUALS(EINVAL, gds_free_mapped_memory(&wrong));
        wrong = desc;
        wrong.flags = types[1 - i];
        EQUALS(EINVAL, gds_free_mapped_memory(&wrong));
        /* Without a context it is not freed and stays usable. */
        EQUALS(CUDA_SUCCESS, cuCtxSetCurrent(NULL));
        EQUALS(EINVAL, gds_free_mapped_memory(&desc));
        EQUALS(EINVAL, gds_mlx5_get_dword_wait_info(desc.h_ptr, 1, GDS_MEMORY_HOST, &info));
        EQUALS(CUDA_SUCCESS, cuCtxSetCurrent(context));
        CHECK(!memcmp(&desc, &kept, sizeof desc));
        store(desc.h_ptr, 5);
        EQUALS(0, gds_free_mapped_memory(&desc));
        EQUALS(EINVAL, gds_free_mapped_memory(&desc));
        desc = kept;
        EQUALS(EINVAL, gds_free_mapped_memory(&desc));
    }
}

static void questions(void)
{
    int value = -7;
    EQUALS(EINVAL, gds_query_param(GDS_PARAM_VERSION, NULL));
    EQUALS(EINVAL, gds_query_param(GDS_NUM_PARAMS, &value));
    EQUALS(EINVAL, gds_query_param((gds_param_t)-1, &value));
    EQUALS(-7, value);
    EQUALS(0, gds_query_param(GDS_PARAM_VERSION, &value));
    EQUALS(0x20002, value);
    CHECK(GDS_API_VERSION_COMPATIBLE(value) && !GDS_API_VERSION_COMPATIBLE(0x20001) && !GDS_API_VERSION_COMPATIBLE(0x30002));

    gds_mlx5_dword_wait_info_t info;
    memset(&info, 0xcc, sizeof info);
    EQUALS(EINVAL, gds_mlx5_get_dword_wait_info(NULL, 1, GDS_MEMORY_HOST, &info));
    EQUALS(EINVAL, gds_mlx5_get_dword_wait_info(words, 1, GDS_MEMORY_HOST, NULL));
    EQUALS(EINVAL, gds_mlx5_get_dword_wait_info(words, 1, 0, &info));
    EQUALS(EINVAL, gds_mlx5_get_dword_wait_info(words, 1, GDS_MEMORY_HOST | 1 << 9, &info));
    EQUALS(EINVAL, gds_mlx5_get_dword_wait_info((uint32_t *)((char *)words + 1), 1, GDS_MEMORY_HOST, &info));
    EQUALS(0xcccccccc, info.value);
}

int main(void)
{
    gds_descriptor_t one = write_word(words, 1, GDS_MEMORY_HOST);
    gds_mem_desc_t desc = {0};
    gds_mlx5_dword_wait_info_t info;
    gds_sim_begin();
    /* Without a context: only functions of the CPU work. */
    questions();
    prepare();
    lists(NULL, 1);
    EQUALS(EINVAL, gds_stream_post_descriptors(NULL, 1, &one, 0));
    EQUALS(EINVAL, gds_alloc_mapped_memory(&desc, 64, GDS_MEMORY_GPU));
    EQUALS(EINVAL, gds_alloc_mapped_memory(&desc, 64, GDS_MEMORY_HOST));
    EQUALS(EINVAL, gds_mlx5_get_dword_wait_info(words, 1, GDS_MEMORY_HOST, &info));

    CUcontext context = start();
    CUstream stream = new_stream();
    questions();
    prepare();
    lists(stream, 0);
    lists(stream, 1);
    memory(context);
    /* Errors of CUDA: no such stream, and an invalid address. */
    EQUALS(EINVAL, gds_stream_post_descriptors((CUstream)0x123450, 1, &one, 0));
    gds_descriptor_t nowhere = write_word((void *)0x1000, 1, GDS_MEMORY_GPU);
    EQUALS(EINVAL, gds_stream_post_descriptors(stream, 1, &nowhere, 0));
    puts("misuse: ok");
    return 0;
}
