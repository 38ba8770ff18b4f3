/*
 * gdsync/core.h: descriptors, and the two ways to have them done. Part of gdsync.h, which is the one to include.
 */
#ifndef GDSYNC_CORE_H
#define GDSYNC_CORE_H

#ifndef __GDSYNC_H__
#error "include gdsync.h, which includes this"
#endif

GDS_BEGIN_DECLS

/* Versions: major << 16 | minor. A library serves a program that was built for the same major and no later minor version. */
#define GDS_API_MAJOR_VERSION 2
#define GDS_API_MINOR_VERSION 2
#define GDS_API_VERSION (((unsigned)GDS_API_MAJOR_VERSION << 16) | (unsigned)GDS_API_MINOR_VERSION)
#define GDS_API_VERSION_COMPATIBLE(v) \
    ((unsigned)(v) >> 16 == (unsigned)GDS_API_MAJOR_VERSION && ((unsigned)(v) & 0xffffU) >= (unsigned)GDS_API_MINOR_VERSION)

typedef enum gds_param {
    GDS_PARAM_VERSION, /* GDS_API_VERSION of the library */
    GDS_NUM_PARAMS     /* one more than the last */
} gds_param_t;

/* Writes what is asked for to *value. */
int gds_query_param(gds_param_t param, int *value);

/* Whose memory a word is in: exactly one of the first three goes into `flags`. */
typedef enum gds_memory_type {
    /* The pointer is the GPU's own address: cuMemAlloc, cudaMalloc, and pinned host memory that CUDA gave (cudaMallocHost). */
    GDS_MEMORY_GPU = 1,
    /*
     * Memory of the process (malloc). The pages of a word are registered with CUDA when it is first posted, and stay so until
     * the memory is freed by gds_free_mapped_memory or its CUDA context ends: do not give them back to the system before.
     */
    GDS_MEMORY_HOST = 2,
    /* Registers of another device, mapped into the process. */
    GDS_MEMORY_IO = 4,
    GDS_MEMORY_MASK = 0x7
} gds_memory_type_t;

/* With a wait, besides the memory type. */
typedef enum gds_wait_flags {
    /* What third parties wrote to the GPU's memory over PCIe before is visible to the stream's later work. */
    GDS_WAIT_POST_FLUSH_REMOTE = 1 << 3,
    GDS_WAIT_POST_FLUSH = GDS_WAIT_POST_FLUSH_REMOTE
} gds_wait_flags_t;

/* With the write of a word. */
typedef enum gds_write_flags {
    /* What was written before is visible to the whole system first. */
    GDS_WRITE_PRE_BARRIER_SYS = 1 << 4,
    GDS_WRITE_PRE_BARRIER = GDS_WRITE_PRE_BARRIER_SYS
} gds_write_flags_t;

/* With the write of memory. */
typedef enum gds_write_memory_flags {
    /* What was written is visible to the whole system before what comes next is written. */
    GDS_WRITE_MEMORY_POST_BARRIER_SYS = 1 << 4,
    /* What was written before is visible to the whole system first. */
    GDS_WRITE_MEMORY_PRE_BARRIER_SYS = 1 << 5
} gds_write_memory_flags_t;

/* Sorts of memory barriers. No function takes them; programs know the names. */
typedef enum gds_membar_flags {
    GDS_MEMBAR_FLUSH_REMOTE = 1 << 4,
    GDS_MEMBAR_DEFAULT = 1 << 5,
    GDS_MEMBAR_SYS = 1 << 6,
    GDS_MEMBAR_MLX5 = 1 << 7
} gds_membar_flags_t;

/* What a wait waits for, of the word it sees and its value. */
typedef enum gds_wait_cond_flag {
    GDS_WAIT_COND_GEQ = 0, /* (int32_t)(word - value) >= 0: cyclic */
    GDS_WAIT_COND_EQ,      /* word == value */
    GDS_WAIT_COND_AND,     /* (word & value) != 0 */
    GDS_WAIT_COND_NOR      /* ~(word | value) != 0; Volta and later */
} gds_wait_cond_flag_t;

/* A wait for a word of 32 bits. */
typedef struct gds_wait_value32 {
    uint32_t *ptr; /* at a multiple of 4 */
    uint32_t value;
    gds_wait_cond_flag_t cond_flags;
    int flags; /* gds_memory_type_t | gds_wait_flags_t */
} gds_wait_value32_t;

int gds_prepare_wait_value32(gds_wait_value32_t *desc, uint32_t *ptr, uint32_t value, gds_wait_cond_flag_t cond_flags, int flags);

/* The write of a word of 32 bits. */
typedef struct gds_write_value32 {
    uint32_t *ptr; /* at a multiple of 4 */
    uint32_t value;
    int flags; /* gds_memory_type_t | gds_write_flags_t */
} gds_write_value32_t;

int gds_prepare_write_value32(gds_write_value32_t *desc, uint32_t *ptr, uint32_t value, int flags);

/*
 * The write of 4 to 1024 bytes, in words of 4, each of which is written at once. They are read from `src` while the descriptor
 * is posted; afterwards `src` is the program's again.
 */
typedef struct gds_write_memory {
    uint8_t *dest; /* at a multiple of 4 */
    const uint8_t *src;
    size_t count; /* bytes */
    int flags;    /* gds_memory_type_t | gds_write_memory_flags_t */
} gds_write_memory_t;

int gds_prepare_write_memory(gds_write_memory_t *desc, uint8_t *dest, const uint8_t *src, size_t count, int flags);

/* Send and wait requests of queue pairs: not in this library yet. */
typedef struct gds_send_request gds_send_request_t;
typedef struct gds_wait_request gds_wait_request_t;

/* Which member of a descriptor's union is meant. */
typedef enum gds_tag {
    GDS_TAG_SEND,
    GDS_TAG_WAIT,
    GDS_TAG_WAIT_VALUE32,
    GDS_TAG_WRITE_VALUE32,
    GDS_TAG_WRITE_MEMORY
} gds_tag_t;

typedef struct gds_descriptor {
    gds_tag_t tag;
    union {
        gds_send_request_t *send;       /* ENOSYS */
        gds_wait_request_t *wait;       /* ENOSYS */
        gds_wait_value32_t wait32;
        gds_write_value32_t write32;
        gds_write_memory_t writemem;
    };
} gds_descriptor_t;

/*
 * Puts descriptors into a stream of the current context's GPU, which does them in order. `flags` is 0. All are looked at first:
 * where one is refused, none is put in. More than 255 operations go to CUDA in several batches; should it refuse a later one,
 * those before it are in the stream. The words stay memory until the stream has done them.
 */
int gds_stream_post_descriptors(CUstream stream, size_t n_descs, gds_descriptor_t *descs, int flags);

/*
 * Has the CPU do descriptors, in order, before it returns; a wait lasts as long as it takes. `flags` is 0. Of GPU memory the CPU
 * reaches what gds_alloc_mapped_memory gave, and pinned host memory; other is EFAULT, and nothing is done.
 */
int gds_post_descriptors(size_t n_descs, gds_descriptor_t *descs, int flags);

GDS_END_DECLS

#endif /* GDSYNC_CORE_H */
