/*
 * gdsync/tools.h: memory that both the CPU and the GPU can access. Include gdsync.h first.
 */
#ifndef GDSYNC_TOOLS_H
#define GDSYNC_TOOLS_H

#ifndef __GDSYNC_H__
#error "include gdsync.h before this"
#endif

GDS_BEGIN_DECLS

typedef struct gds_mem_desc {
    CUdeviceptr d_ptr; /* GPU address */
    void *h_ptr;       /* CPU address */
    void *bar_ptr;     /* GPU memory: start of its CPU mapping */
    int flags;         /* gds_memory_type_t */
    size_t alloc_size; /* requested bytes */
    gdr_mh_t mh;       /* GPU memory: not 0; not valid for other functions */
} gds_mem_desc_t;

/*
 * Allocates `size` bytes on the GPU of the current context (GDS_MEMORY_GPU: synchronous copies of it synchronise, and the CPU has
 * a mapping of it, with or without the gdrdrv kernel module) or on the host (GDS_MEMORY_HOST: whole zeroed pages, registered
 * with CUDA), and fills in `desc`. A size of 0 does nothing and returns 0.
 */
int gds_alloc_mapped_memory(gds_mem_desc_t *desc, size_t size, int flags);

/*
 * Frees the memory and sets the pointers and the size in `desc` to 0. The memory must be unused: synchronise streams first. EINVAL for
 * unknown or freed memory, and without a current context: the memory is not freed then.
 */
int gds_free_mapped_memory(gds_mem_desc_t *desc);

GDS_END_DECLS

#endif /* GDSYNC_TOOLS_H */
