/*
 * gdrapi.h: the C interface of libgdrapi.so.2, GDRCopy API 2.6.
 *
 * Low-latency copies between the CPU and GPU memory: a buffer of device memory is pinned, mapped into the process, and
 * then read and written by the CPU. The interface is that of NVIDIA's gdrcopy, name for name and byte for byte; this
 * header and the library behind it are an independent implementation that also works where no gdrdrv kernel module is
 * installed.
 *
 * Every function with an int result returns 0, or a positive errno value and changes nothing. NULL pointers, closed or
 * unpinned handles, and handles of another gdr_t are EINVAL; a handle inherited through fork() is EACCES for functions
 * with a gdr_t argument, and EINVAL for the copy functions.
 *
 * Functions may be called from any thread at any time, with one exception: while a copy runs in another thread, its
 * mapping must not be unmapped, its handle not unpinned and its gdr_t not closed.
 *
 * Environment:
 *   GDRCOPY_ENABLE_LOGGING   any value: print messages on standard error
 *   GDRCOPY_LOG_LEVEL        1 debug, 2 information, 3 warnings, 4 errors only (the default)
 *   GDRCOPY_USE_DMABUF_MMAP  "1": map through dma-buf even if gdrdrv is installed
 *   GDR_BACKEND              gdrdrv, dmabuf, rm or sim: use this backend only
 */
#ifndef GDRAPI_H
#define GDRAPI_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* Versions: major << 16 | minor. */
#define MAJOR_VERSION_SHIFT 16
#define MINOR_VERSION_MASK (((uint32_t)1 << MAJOR_VERSION_SHIFT) - 1)

#define GDR_API_MAJOR_VERSION 2
#define GDR_API_MINOR_VERSION 6
#define GDR_API_VERSION ((GDR_API_MAJOR_VERSION << MAJOR_VERSION_SHIFT) | GDR_API_MINOR_VERSION)

/* Oldest supported gdrdrv kernel module. */
#define MINIMUM_GDRDRV_MAJOR_VERSION 2
#define MINIMUM_GDRDRV_MINOR_VERSION 0
#define MINIMUM_GDRDRV_VERSION ((MINIMUM_GDRDRV_MAJOR_VERSION << MAJOR_VERSION_SHIFT) | MINIMUM_GDRDRV_MINOR_VERSION)

/* Device memory is pinned in pages of 64 KiB; only addresses on their boundaries can be mapped. */
#define GPU_PAGE_SHIFT 16
#define GPU_PAGE_SIZE (1UL << GPU_PAGE_SHIFT)
#define GPU_PAGE_OFFSET (GPU_PAGE_SIZE - 1)
#define GPU_PAGE_MASK (~GPU_PAGE_OFFSET)

#ifdef __cplusplus
extern "C" {
#endif

/* A session; opaque to programs. */
struct gdr;
typedef struct gdr *gdr_t;

/* A pinned buffer. 0 is invalid; a value is never reused in a process. */
typedef struct gdr_mh_s {
    unsigned long h;
} gdr_mh_t;

/*
 * Opens a session and chooses its backend. NULL if there is none, with the reason in errno and in the log. CUDA is
 * neither loaded nor initialised, so the call is safe before fork().
 */
gdr_t gdr_open(void);

/* Unmaps and unpins everything left and ends the session. Continues after a failure and returns the first error. */
int gdr_close(gdr_t g);

/*
 * Pins `size` bytes of device memory at `addr`: their 64 KiB pages do not move until the handle is unpinned.
 * `p2p_token` and `va_space` are deprecated and ignored. A pinned buffer is not yet mapped.
 */
int gdr_pin_buffer(gdr_t g, unsigned long addr, size_t size, uint64_t p2p_token, uint32_t va_space, gdr_mh_t *handle);

typedef enum gdr_pin_flags {
    GDR_PIN_FLAG_DEFAULT = 0,
    /* Through the GPU's PCIe aperture, even on machines with a coherent link; EINVAL if not supported. */
    GDR_PIN_FLAG_FORCE_PCIE = 1
} gdr_pin_flags_t;

/* gdr_pin_buffer without the deprecated arguments; `flags` is one of gdr_pin_flags_t. */
int gdr_pin_buffer_v2(gdr_t g, unsigned long addr, size_t size, uint32_t flags, gdr_mh_t *handle);

/* Ends a pin and its mapping. The handle is invalid afterwards, even if an error is returned. */
int gdr_unpin_buffer(gdr_t g, gdr_mh_t handle);

/* Writes 1 to *flag if the driver revoked the pin because the memory was freed, else 0. */
int gdr_get_callback_flag(gdr_t g, gdr_mh_t handle, int *flag);

/* CPU caching of a mapping. */
typedef enum gdr_mapping_type {
    GDR_MAPPING_TYPE_NONE = 0,    /* not mapped */
    GDR_MAPPING_TYPE_WC = 1,      /* write combining */
    GDR_MAPPING_TYPE_CACHING = 2, /* cached: the GPU's memory is coherent with the CPU's */
    GDR_MAPPING_TYPE_DEVICE = 3,  /* uncached: naturally aligned accesses only */
    GDR_MAPPING_TYPE_MAX          /* one more than the last */
} gdr_mapping_type_t;

typedef struct gdr_info_v2 {
    uint64_t va;            /* device address, rounded down to a page */
    uint64_t mapped_size;   /* bytes, rounded up to whole pages */
    uint32_t page_size;     /* bytes */
    uint64_t tm_cycles;     /* deprecated: timestamp-counter cycles of the pin, or 0 */
    uint32_t cycles_per_ms; /* deprecated: their frequency, or 0 */
    unsigned mapped : 1;
    unsigned wc_mapping : 1;
    gdr_mapping_type_t mapping_type;
} gdr_info_v2_t;
typedef gdr_info_v2_t gdr_info_t;

/* Describes a pinned buffer. */
int gdr_get_info_v2(gdr_t g, gdr_mh_t handle, gdr_info_v2_t *info);

/*
 * The library also has a function gdr_get_info, for programs compiled with releases before 2.4: it fills their
 * structure, which ends before mapping_type (40 bytes). Source code compiled with this header uses the current one.
 */
#define gdr_get_info gdr_get_info_v2

/*
 * Maps the first `size` bytes of a pinned buffer for the CPU and writes their address to *va. EINVAL if the buffer does
 * not begin on a 64 KiB boundary or is smaller, EAGAIN if it is already mapped. A child made by fork() does not have
 * the mapping.
 */
int gdr_map(gdr_t g, gdr_mh_t handle, void **va, size_t size);

typedef enum gdr_map_flags {
    GDR_MAP_FLAG_DEFAULT = 0,
    GDR_MAP_FLAG_REQ_WC_MAPPING = 1,
    GDR_MAP_FLAG_REQ_CACHE_MAPPING = 2,
    GDR_MAP_FLAG_REQ_DEVICE_MAPPING = 3
} gdr_map_flags_t;

/* gdr_map with a mapping type (one of gdr_map_flags_t); EINVAL if the memory cannot be mapped as this type. */
int gdr_map_v2(gdr_t g, gdr_mh_t handle, void **ptr_va, size_t size, int flags);

/* Unmaps; `va` and `size` as with gdr_map. The buffer stays pinned. */
int gdr_unmap(gdr_t g, gdr_mh_t handle, void *va, size_t size);

/*
 * Copies `size` bytes from host memory into a mapping, or from a mapping into host memory. `map_d_ptr` is any address
 * inside the mapping of `handle`; EINVAL if it is not mapped or the bytes do not all lie in it.
 *
 * When gdr_copy_to_mapping returns, the bytes have left the CPU's write-combining buffers. A running kernel may see them
 * in any order: write the data first, and the flag that announces them in a later call.
 */
int gdr_copy_to_mapping(gdr_mh_t handle, void *map_d_ptr, const void *h_ptr, size_t size);
int gdr_copy_from_mapping(gdr_mh_t handle, void *h_ptr, const void *map_d_ptr, size_t size);

/* The version of this interface: 2 and 6. */
void gdr_runtime_get_version(int *major, int *minor);

/* The version of the gdrdrv module in use; the version of this interface if none is. */
int gdr_driver_get_version(gdr_t g, int *major, int *minor);

typedef enum gdr_attr {
    /* Non-zero: a pin outlives its memory (the callback flag stays 0). */
    GDR_ATTR_USE_PERSISTENT_MAPPING = 1,
    /* Non-zero: GDR_PIN_FLAG_FORCE_PCIE is supported; a pin with it may still fail. */
    GDR_ATTR_SUPPORT_PIN_FLAG_FORCE_PCIE = 2,
    /* Non-zero: the gdrdrv module is not in use. */
    GDR_ATTR_USING_DMA_BUF_MMAP = 3,
    GDR_ATTR_MAX /* one more than the last */
} gdr_attr_t;

/* Reads an attribute of the session. */
int gdr_get_attribute(gdr_t g, gdr_attr_t attr, int *v);

/* Points *pstr to "None", "Write Combining", "Caching" or "Device". */
int gdr_get_mapping_type_string(gdr_mapping_type_t mapping_type, const char **pstr);

#ifdef __cplusplus
}
#endif

#endif /* GDRAPI_H */
