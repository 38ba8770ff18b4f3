/*
 * Compiles, as C and as C++, if the headers have the sizes, offsets, values and signatures of libgdsync 2.2. The numbers were
 * taken with GCC from upstream's headers on x86_64, against which the same text compiles.
 */
#include <stddef.h>

#include <gdsync.h>
#include <gdsync/mlx5.h>
#include <gdsync/tools.h>

#ifdef __cplusplus
#define SAME(what, value) static_assert((what) == (value), #what)
#else
#define SAME(what, value) _Static_assert((what) == (value), #what)
#endif

SAME(GDS_API_MAJOR_VERSION, 2);
SAME(GDS_API_MINOR_VERSION, 2);
SAME(GDS_API_VERSION, 0x20002u);
SAME(GDS_API_VERSION_COMPATIBLE(0x20002), 1);
SAME(GDS_API_VERSION_COMPATIBLE(0x20003), 1);
SAME(GDS_API_VERSION_COMPATIBLE(0x20001), 0);
SAME(GDS_API_VERSION_COMPATIBLE(0x10002), 0);
SAME(GDS_API_VERSION_COMPATIBLE(0x30002), 0);
SAME(GDS_PARAM_VERSION, 0);
SAME(GDS_NUM_PARAMS, 1);

SAME(GDS_MEMORY_GPU, 1);
SAME(GDS_MEMORY_HOST, 2);
SAME(GDS_MEMORY_IO, 4);
SAME(GDS_MEMORY_MASK, 7);
SAME(GDS_WAIT_POST_FLUSH_REMOTE, 8);
SAME(GDS_WAIT_POST_FLUSH, 8);
SAME(GDS_WRITE_PRE_BARRIER_SYS, 16);
SAME(GDS_WRITE_PRE_BARRIER, 16);
SAME(GDS_WRITE_MEMORY_POST_BARRIER_SYS, 16);
SAME(GDS_WRITE_MEMORY_PRE_BARRIER_SYS, 32);
SAME(GDS_MEMBAR_FLUSH_REMOTE, 16);
SAME(GDS_MEMBAR_DEFAULT, 32);
SAME(GDS_MEMBAR_SYS, 64);
SAME(GDS_MEMBAR_MLX5, 128);
SAME(GDS_WAIT_COND_GEQ, 0);
SAME(GDS_WAIT_COND_EQ, 1);
SAME(GDS_WAIT_COND_AND, 2);
SAME(GDS_WAIT_COND_NOR, 3);
SAME(GDS_TAG_SEND, 0);
SAME(GDS_TAG_WAIT, 1);
SAME(GDS_TAG_WAIT_VALUE32, 2);
SAME(GDS_TAG_WRITE_VALUE32, 3);
SAME(GDS_TAG_WRITE_MEMORY, 4);
SAME(sizeof(gds_param_t), 4);
SAME(sizeof(gds_memory_type_t), 4);
SAME(sizeof(gds_wait_flags_t), 4);
SAME(sizeof(gds_write_flags_t), 4);
SAME(sizeof(gds_write_memory_flags_t), 4);
SAME(sizeof(gds_membar_flags_t), 4);
SAME(sizeof(gds_wait_cond_flag_t), 4);
SAME(sizeof(gds_tag_t), 4);

SAME(sizeof(gds_wait_value32_t), 24);
SAME(offsetof(gds_wait_value32_t, ptr), 0);
SAME(offsetof(gds_wait_value32_t, value), 8);
SAME(offsetof(gds_wait_value32_t, cond_flags), 12);
SAME(offsetof(gds_wait_value32_t, flags), 16);
SAME(sizeof(gds_write_value32_t), 16);
SAME(offsetof(gds_write_value32_t, ptr), 0);
SAME(offsetof(gds_write_value32_t, value), 8);
SAME(offsetof(gds_write_value32_t, flags), 12);
SAME(sizeof(gds_write_memory_t), 32);
SAME(offsetof(gds_write_memory_t, dest), 0);
SAME(offsetof(gds_write_memory_t, src), 8);
SAME(offsetof(gds_write_memory_t, count), 16);
SAME(offsetof(gds_write_memory_t, flags), 24);
SAME(sizeof(gds_descriptor_t), 40);
SAME(offsetof(gds_descriptor_t, tag), 0);
SAME(offsetof(gds_descriptor_t, send), 8);
SAME(offsetof(gds_descriptor_t, wait), 8);
SAME(offsetof(gds_descriptor_t, wait32), 8);
SAME(offsetof(gds_descriptor_t, write32), 8);
SAME(offsetof(gds_descriptor_t, writemem), 8);
SAME(sizeof(gds_mem_desc_t), 48);
SAME(offsetof(gds_mem_desc_t, d_ptr), 0);
SAME(offsetof(gds_mem_desc_t, h_ptr), 8);
SAME(offsetof(gds_mem_desc_t, bar_ptr), 16);
SAME(offsetof(gds_mem_desc_t, flags), 24);
SAME(offsetof(gds_mem_desc_t, alloc_size), 32);
SAME(offsetof(gds_mem_desc_t, mh), 40);
SAME(sizeof(gds_mlx5_dword_wait_info_t), 16);
SAME(offsetof(gds_mlx5_dword_wait_info_t, ptr), 0);
SAME(offsetof(gds_mlx5_dword_wait_info_t, value), 8);

/* A pointer of another type does not take the function. */
int (*query)(gds_param_t, int *) = gds_query_param;
int (*prepare_wait)(gds_wait_value32_t *, uint32_t *, uint32_t, gds_wait_cond_flag_t, int) = gds_prepare_wait_value32;
int (*prepare_write)(gds_write_value32_t *, uint32_t *, uint32_t, int) = gds_prepare_write_value32;
int (*prepare_memory)(gds_write_memory_t *, uint8_t *, const uint8_t *, size_t, int) = gds_prepare_write_memory;
int (*post_on_stream)(CUstream, size_t, gds_descriptor_t *, int) = gds_stream_post_descriptors;
int (*post)(size_t, gds_descriptor_t *, int) = gds_post_descriptors;
int (*allocate)(gds_mem_desc_t *, size_t, int) = gds_alloc_mapped_memory;
int (*release)(gds_mem_desc_t *) = gds_free_mapped_memory;
int (*wait_info)(uint32_t *, uint32_t, int, gds_mlx5_dword_wait_info_t *) = gds_mlx5_get_dword_wait_info;

int main(void)
{
    int version = 0;
    return gds_query_param(GDS_PARAM_VERSION, &version) == 0 && GDS_API_VERSION_COMPATIBLE(version) ? 0 : 1;
}
