/*
 * gdsync/tools.h: memory that both the CPU and the GPU reach. Include gdsync.h first.
 */
#ifndef GDSYNC_TOOLS_H
#define GDSYNC_TOOLS_H

#ifndef __GDSYNC_H__
#error "include gdsync.h before this"
#endif

GDS_BEGIN_DECLS

typedef struct gds_mem_desc {
    CUdeviceptr d_ptr; /* for the GPU */
    void *h_ptr;       /* for the CPU */
    void *bar_ptr;     /* GPU memory: where its mapping begins */
    int flags;         /* gds_memory_type_t */
    size_t alloc_size; /* bytes asked for */
    gdr_mh_t mh;       /* GPU memory: not 0; of no use to other functions */
} gds_mem_desc_t;

/*
 * Allocates `size` bytes on the GPU of the current context (GDS_MEMORY_GPU: synchronous copies of it synchronise, and the CPU has
 * a mapping of it, with or without the gdrdrv kernel module) or on the host (GDS_MEMORY_HOST: whole zeroed pages, registered
 * with CUDA), and describes them. Of 0 bytes it does nothing and returns 0.
 */
int gds_alloc_mapped_memory(gds_mem_desc_t *desc, size_t size, int flags);

/*
 * Frees it, and makes the pointers and the size in the description 0. Nobody may use the memory any more: synchronise streams
 * first. EINVAL for what is not, or no longer, such memory, and without a current context: the memory stays as it is then.
 */
int gds_free_mapped_memory(gds_mem_desc_t *desc);

GDS_END_DECLS

#endif /* GDSYNC_TOOLS_H */
