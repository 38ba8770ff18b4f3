/*
 * Compiles as C and C++ if the header has the sizes, offsets, values and signatures of gdrcopy 2.6. The numbers come
 * from GCC with upstream's header on x86_64; UPSTREAM selects that header.
 */
#include <stddef.h>
#include <stdio.h>
#ifdef UPSTREAM
#include UPSTREAM
#else
#include "gdrapi.h"
#endif
#include "gdrconfig.h"

#ifdef __cplusplus
#define SAME(what, value) static_assert((what) == (value), #what)
#else
#define SAME(what, value) _Static_assert((what) == (value), #what)
#endif

SAME(GDR_API_MAJOR_VERSION, 2);
SAME(GDR_API_MINOR_VERSION, 6);
SAME(GDR_API_VERSION, 0x20006);
SAME(MINIMUM_GDRDRV_MAJOR_VERSION, 2);
SAME(MINIMUM_GDRDRV_MINOR_VERSION, 0);
SAME(MINIMUM_GDRDRV_VERSION, 0x20000);
SAME(MAJOR_VERSION_SHIFT, 16);
SAME(MINOR_VERSION_MASK, 0xffff);
SAME(sizeof(MINOR_VERSION_MASK), 4);
SAME(GPU_PAGE_SHIFT, 16);
SAME(GPU_PAGE_SIZE, 65536);
SAME(sizeof(GPU_PAGE_SIZE), sizeof(unsigned long));
SAME(GPU_PAGE_OFFSET, 65535);
SAME(GPU_PAGE_MASK, 0xffffffffffff0000UL);

SAME(sizeof(gdr_t), 8);
SAME(sizeof(gdr_mh_t), 8);
SAME(sizeof(struct gdr_mh_s), 8);
SAME(offsetof(gdr_mh_t, h), 0);

SAME(GDR_PIN_FLAG_DEFAULT, 0);
SAME(GDR_PIN_FLAG_FORCE_PCIE, 1);
SAME(sizeof(gdr_pin_flags_t), 4);
SAME(GDR_MAPPING_TYPE_NONE, 0);
SAME(GDR_MAPPING_TYPE_WC, 1);
SAME(GDR_MAPPING_TYPE_CACHING, 2);
SAME(GDR_MAPPING_TYPE_DEVICE, 3);
SAME(GDR_MAPPING_TYPE_MAX, 4);
SAME(sizeof(gdr_mapping_type_t), 4);
SAME(GDR_MAP_FLAG_DEFAULT, 0);
SAME(GDR_MAP_FLAG_REQ_WC_MAPPING, 1);
SAME(GDR_MAP_FLAG_REQ_CACHE_MAPPING, 2);
SAME(GDR_MAP_FLAG_REQ_DEVICE_MAPPING, 3);
SAME(sizeof(gdr_map_flags_t), 4);
SAME(GDR_ATTR_USE_PERSISTENT_MAPPING, 1);
SAME(GDR_ATTR_SUPPORT_PIN_FLAG_FORCE_PCIE, 2);
SAME(GDR_ATTR_USING_DMA_BUF_MMAP, 3);
SAME(GDR_ATTR_MAX, 4);
SAME(sizeof(gdr_attr_t), 4);

SAME(sizeof(gdr_info_t), 48);
SAME(sizeof(gdr_info_v2_t), 48);
SAME(sizeof(struct gdr_info_v2), 48);
SAME(offsetof(gdr_info_t, va), 0);
SAME(offsetof(gdr_info_t, mapped_size), 8);
SAME(offsetof(gdr_info_t, page_size), 16);
SAME(offsetof(gdr_info_t, tm_cycles), 24);
SAME(offsetof(gdr_info_t, cycles_per_ms), 32);
SAME(offsetof(gdr_info_t, mapping_type), 40);

/* A pointer of another type does not accept the function. */
gdr_t (*open_)(void) = gdr_open;
int (*close_)(gdr_t) = gdr_close;
int (*pin)(gdr_t, unsigned long, size_t, uint64_t, uint32_t, gdr_mh_t *) = gdr_pin_buffer;
int (*pin_v2)(gdr_t, unsigned long, size_t, uint32_t, gdr_mh_t *) = gdr_pin_buffer_v2;
int (*unpin)(gdr_t, gdr_mh_t) = gdr_unpin_buffer;
int (*flag)(gdr_t, gdr_mh_t, int *) = gdr_get_callback_flag;
int (*info)(gdr_t, gdr_mh_t, gdr_info_t *) = gdr_get_info;
int (*info_v2)(gdr_t, gdr_mh_t, gdr_info_v2_t *) = gdr_get_info_v2;
int (*map)(gdr_t, gdr_mh_t, void **, size_t) = gdr_map;
int (*map_v2)(gdr_t, gdr_mh_t, void **, size_t, int) = gdr_map_v2;
int (*unmap)(gdr_t, gdr_mh_t, void *, size_t) = gdr_unmap;
int (*to)(gdr_mh_t, void *, const void *, size_t) = gdr_copy_to_mapping;
int (*from)(gdr_mh_t, void *, const void *, size_t) = gdr_copy_from_mapping;
void (*runtime)(int *, int *) = gdr_runtime_get_version;
int (*driver)(gdr_t, int *, int *) = gdr_driver_get_version;
int (*attribute)(gdr_t, gdr_attr_t, int *) = gdr_get_attribute;
int (*name)(gdr_mapping_type_t, const char **) = gdr_get_mapping_type_string;

/* Bit fields have no offsets: compares the byte that changes. */
int main(void)
{
    union {
        gdr_info_t info;
        unsigned char bytes[sizeof(gdr_info_t)];
    } seen = {};
    seen.info.mapped = 1;
    if (seen.bytes[36] != 1)
        return 1;
    seen.info.wc_mapping = 1;
    if (seen.bytes[36] != 3)
        return 2;
#if defined(GDRAPI_X86) + defined(GDRAPI_ARM64) + defined(GDRAPI_POWER) != 1
#error "one architecture"
#endif
    /* The macro: gdr_get_info means gdr_get_info_v2. */
    return info == info_v2 ? 0 : 3;
}
