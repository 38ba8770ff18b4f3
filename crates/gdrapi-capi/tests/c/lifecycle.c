/*
 * Correct use from gdr_open to gdr_close, and the requirements of upstream's tests.
 */
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"

#define BYTES (4 * GPU_PAGE_SIZE)

/* The symbol behind the macro, as called by programs with a header of 2.3 or older: their structure has 40 bytes. */
#undef gdr_get_info
int gdr_get_info(gdr_t g, gdr_mh_t handle, void *forty_bytes);

static sigjmp_buf back;

static void fault(int signal)
{
    siglongjmp(back, signal);
}

/* Signal raised by reading the address, or 0. */
static int touch(volatile unsigned char *address)
{
    struct sigaction action = {.sa_handler = fault}, old_segv, old_bus;
    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
    int signal = sigsetjmp(back, 1);
    if (signal == 0)
        (void)*address;
    sigaction(SIGSEGV, &old_segv, NULL);
    sigaction(SIGBUS, &old_bus, NULL);
    return signal;
}

static void versions_and_attributes(gdr_t g)
{
    int major = 0, minor = 0, value = -1;
    gdr_runtime_get_version(&major, &minor);
    EQUALS(2, major);
    EQUALS(6, minor);
    EQUALS(0, gdr_driver_get_version(g, &major, &minor));
    /* NCCL disables GDRCopy below 2.1. */
    CHECK(major == 2 && minor >= 1);
    EQUALS(0, gdr_get_attribute(g, GDR_ATTR_USE_PERSISTENT_MAPPING, &value));
    CHECK(value == 0 || value == 1);
    EQUALS(0, gdr_get_attribute(g, GDR_ATTR_SUPPORT_PIN_FLAG_FORCE_PCIE, &value));
    CHECK(value == 0 || value == 1);
    EQUALS(0, gdr_get_attribute(g, GDR_ATTR_USING_DMA_BUF_MMAP, &value));
    EQUALS(1, value);
    /* Programs that read the structure find -1 instead of gdrdrv's descriptor. */
    EQUALS(-1, *(int *)g);

    const char *const names[] = {"None", "Write Combining", "Caching", "Device"};
    for (int type = GDR_MAPPING_TYPE_NONE; type < GDR_MAPPING_TYPE_MAX; ++type) {
        const char *name = NULL;
        EQUALS(0, gdr_get_mapping_type_string((gdr_mapping_type_t)type, &name));
        CHECK(strcmp(name, names[type]) == 0);
    }
}

static void info_of_old(gdr_t g, gdr_mh_t handle, const gdr_info_v2_t *now)
{
    unsigned char old[64];
    memset(old, 0xcc, sizeof old);
    EQUALS(0, gdr_get_info(g, handle, old));
    CHECK(memcmp(old, now, 20) == 0);
    CHECK(memcmp(old + 24, (const unsigned char *)now + 24, 16) == 0);
    for (size_t i = 40; i < sizeof old; ++i)
        EQUALS(0xcc, old[i]);
}

static void bytes_arrive(gdr_mh_t handle, unsigned char *mapped, unsigned long address)
{
    static unsigned char out[BYTES], in[BYTES], device[BYTES];
    const size_t offsets[] = {0, 1, 2, 3, 4, 5, 6, 7, 11, 63, 64, 129, 1023};
    for (size_t i = 0; i < BYTES; ++i)
        out[i] = (unsigned char)(i * 131 + i / 251);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; ++i) {
        size_t offset = offsets[i], length = BYTES - offset;
        EQUALS(0, gdr_sim_fill(address, 0xa5, BYTES));
        EQUALS(0, gdr_copy_to_mapping(handle, mapped + offset, out, length));
        EQUALS(0, gdr_sim_read(address, device, BYTES));
        CHECK(memcmp(device + offset, out, length) == 0);
        for (size_t before = 0; before < offset; ++before)
            EQUALS(0xa5, device[before]);
        memset(in, 0, BYTES);
        EQUALS(0, gdr_copy_from_mapping(handle, in + offset, mapped + offset, length));
        CHECK(memcmp(in + offset, out, length) == 0);
        memset(in, 0, BYTES);
        EQUALS(0, gdr_copy_from_mapping(handle, in, mapped + offset, 1));
        CHECK(in[0] == out[0] && in[1] == 0);
    }
    /* Plain stores through the pointer. */
    mapped[17] = 0x5a;
    EQUALS(0x5a, gpu_byte(address + 17));
}

static void edges(gdr_mh_t handle, unsigned char *mapped)
{
    unsigned char byte = 0;
    EQUALS(0, gdr_copy_to_mapping(handle, mapped, &byte, 0));
    EQUALS(0, gdr_copy_from_mapping(handle, &byte, mapped, 0));
    EQUALS(0, gdr_copy_to_mapping(handle, NULL, NULL, 0));
    EQUALS(0, gdr_copy_to_mapping(handle, mapped + BYTES - 1, &byte, 1));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped + BYTES - 1, &byte, 2));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped + BYTES, &byte, 1));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped - 1, &byte, 1));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped, &byte, (size_t)-1));
    EQUALS(EINVAL, gdr_copy_from_mapping(handle, &byte, mapped + 1, (size_t)-1));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped, NULL, 1));
    EQUALS(EINVAL, gdr_copy_from_mapping(handle, NULL, mapped, 1));
    EQUALS(EINVAL, gdr_copy_from_mapping(handle, &byte, NULL, 1));
}

static void one_buffer(gdr_t g)
{
    unsigned long address = gdr_sim_allocate(BYTES + GPU_PAGE_SIZE);
    CHECK(address != 0);
    unsigned long aligned = (address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    gdr_mh_t handle = {0};
    gdr_info_v2_t info;
    EQUALS(0, gdr_pin_buffer(g, aligned, BYTES, 0, 0, &handle));
    CHECK(handle.h != 0);
    memset(&info, 0xcc, sizeof info);
    EQUALS(0, gdr_get_info_v2(g, handle, &info));
    CHECK(info.va == aligned && info.mapped_size == BYTES && info.page_size == GPU_PAGE_SIZE);
    CHECK(!info.mapped && !info.wc_mapping && info.mapping_type == GDR_MAPPING_TYPE_NONE);
    unsigned char byte;
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, &byte, &byte, 1));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, &byte, &byte, 0));
    int flag = -1;
    EQUALS(0, gdr_get_callback_flag(g, handle, &flag));
    EQUALS(0, flag);

    void *mapped = NULL, *second = &byte;
    EQUALS(EINVAL, gdr_map(g, handle, &second, 0));
    EQUALS(EINVAL, gdr_map(g, handle, &second, BYTES + GPU_PAGE_SIZE + 1));
    EQUALS(EINVAL, gdr_map_v2(g, handle, &second, BYTES, 4));
    EQUALS(EINVAL, gdr_map_v2(g, handle, &second, BYTES, -1));
    EQUALS(EINVAL, gdr_unmap(g, handle, &byte, BYTES));
    EQUALS(0, gdr_map(g, handle, &mapped, BYTES));
    CHECK(mapped != NULL);
    EQUALS(EAGAIN, gdr_map(g, handle, &second, BYTES));
    EQUALS(EAGAIN, gdr_map_v2(g, handle, &second, BYTES, GDR_MAP_FLAG_DEFAULT));
    CHECK(second == &byte);
    EQUALS(0, gdr_get_info_v2(g, handle, &info));
    CHECK(info.mapped && info.mapping_type != GDR_MAPPING_TYPE_NONE);
    CHECK(info.wc_mapping == (info.mapping_type == GDR_MAPPING_TYPE_WC));
    info_of_old(g, handle, &info);

    bytes_arrive(handle, mapped, aligned);
    edges(handle, mapped);

    EQUALS(EINVAL, gdr_unmap(g, handle, (char *)mapped + 1, BYTES));
    EQUALS(EINVAL, gdr_unmap(g, handle, NULL, BYTES));
    EQUALS(EINVAL, gdr_unmap(g, handle, mapped, 0));
    EQUALS(0, touch(mapped));
    EQUALS(0, gdr_unmap(g, handle, mapped, BYTES));
    CHECK(touch(mapped) != 0);
    EQUALS(EINVAL, gdr_unmap(g, handle, mapped, BYTES));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped, &byte, 1));
    /* Unpin while mapped. */
    EQUALS(0, gdr_map_v2(g, handle, &mapped, GPU_PAGE_SIZE, GDR_MAP_FLAG_DEFAULT));
    EQUALS(0, touch(mapped));
    EQUALS(0, gdr_unpin_buffer(g, handle));
    CHECK(touch(mapped) != 0);
    EQUALS(EINVAL, gdr_unpin_buffer(g, handle));
    gdr_sim_free(address);
}

/* As in gdrcopy's basic_unaligned_mapping and basic_small_buffers_mapping. */
static void unaligned_buffers(gdr_t g)
{
    unsigned long address = gdr_sim_allocate(3 * GPU_PAGE_SIZE);
    unsigned long aligned = (address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    gdr_mh_t first, second;
    gdr_info_v2_t info;
    void *mapped = NULL, *none = NULL;
    EQUALS(0, gdr_pin_buffer_v2(g, aligned, 8, GDR_PIN_FLAG_DEFAULT, &first));
    EQUALS(0, gdr_pin_buffer(g, aligned + 8, 8, 0, 0, &second));
    CHECK(first.h != second.h);
    EQUALS(0, gdr_get_info_v2(g, second, &info));
    CHECK(info.va == aligned && info.mapped_size == GPU_PAGE_SIZE);
    EQUALS(0, gdr_map(g, first, &mapped, 8));
    EQUALS(EINVAL, gdr_map(g, second, &none, 8));
    CHECK(none == NULL);
    *(volatile unsigned char *)mapped = 7;
    EQUALS(7, gpu_byte(aligned));
    /* Whole pages are mapped, and programs copy beyond the requested size: gdrcopy_pplat maps 4 bytes and writes 8. */
    const unsigned char more[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    EQUALS(0, gdr_copy_to_mapping(first, mapped, more, sizeof(more)));
    EQUALS(15, gpu_byte(aligned + 15));
    EQUALS(EINVAL, gdr_copy_to_mapping(first, (char *)mapped + GPU_PAGE_SIZE - 8, more, sizeof(more)));
    EQUALS(0, gdr_unmap(g, first, mapped, 8));
    EQUALS(0, gdr_unpin_buffer(g, first));
    EQUALS(0, gdr_unpin_buffer(g, second));
    gdr_sim_free(address);
}

/* A program that rounds up to whole pages after pinning. */
static void mapped_in_whole_pages(gdr_t g)
{
    unsigned long address = gdr_sim_allocate(4 * GPU_PAGE_SIZE);
    unsigned long aligned = (address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    gdr_mh_t handle;
    void *mapped = NULL;
    EQUALS(0, gdr_pin_buffer(g, aligned, GPU_PAGE_SIZE + 8, 0, 0, &handle));
    EQUALS(EINVAL, gdr_map(g, handle, &mapped, 2 * GPU_PAGE_SIZE + 1));
    EQUALS(0, gdr_map(g, handle, &mapped, 2 * GPU_PAGE_SIZE));
    unsigned char byte = 3;
    EQUALS(0, gdr_copy_to_mapping(handle, (char *)mapped + 2 * GPU_PAGE_SIZE - 1, &byte, 1));
    EQUALS(3, gpu_byte(aligned + 2 * GPU_PAGE_SIZE - 1));
    EQUALS(EINVAL, gdr_unmap(g, handle, mapped, 2 * GPU_PAGE_SIZE + 1));
    EQUALS(0, gdr_unmap(g, handle, mapped, 2 * GPU_PAGE_SIZE));
    EQUALS(0, gdr_unpin_buffer(g, handle));
    gdr_sim_free(address);
}

/* gdrcopy's invalidation_access_after_free and invalidation_two_mappings: a pin outlives its memory. */
static void freed_while_mapped(gdr_t g)
{
    unsigned long address[2];
    gdr_mh_t handle[2];
    volatile unsigned char *mapped[2];
    int flag = -1;
    for (int i = 0; i < 2; ++i) {
        address[i] = gdr_sim_allocate(3 * GPU_PAGE_SIZE);
        void *va;
        EQUALS(0, gdr_pin_buffer(g, (address[i] + GPU_PAGE_OFFSET) & GPU_PAGE_MASK, GPU_PAGE_SIZE, 0, 0, &handle[i]));
        EQUALS(0, gdr_map(g, handle[i], &va, GPU_PAGE_SIZE));
        mapped[i] = va;
        mapped[i][99] = (unsigned char)(40 + i);
    }
    gdr_sim_free(address[0]);
    EQUALS(40, mapped[0][99]);
    EQUALS(41, mapped[1][99]);
    EQUALS(0, gdr_get_callback_flag(g, handle[0], &flag));
    EQUALS(0, flag);
    EQUALS(0, gdr_unmap(g, handle[0], (void *)mapped[0], GPU_PAGE_SIZE));
    EQUALS(0, gdr_unpin_buffer(g, handle[0]));
    EQUALS(41, mapped[1][99]);
    EQUALS(0, gdr_unpin_buffer(g, handle[1]));
    gdr_sim_free(address[1]);
}

/* gdr_close unmaps and unpins. */
static void closed_while_mapped(void)
{
    gdr_t g = gdr_open();
    CHECK(g != NULL);
    unsigned long address = gdr_sim_allocate(2 * BYTES);
    unsigned long aligned = (address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    gdr_mh_t handles[8];
    void *mapped[8];
    for (int i = 0; i < 8; ++i) {
        EQUALS(0, gdr_pin_buffer(g, aligned, BYTES, 0, 0, &handles[i]));
        EQUALS(0, gdr_map(g, handles[i], &mapped[i], BYTES));
        EQUALS(0, touch(mapped[i]));
    }
    EQUALS(0, gdr_close(g));
    for (int i = 0; i < 8; ++i) {
        unsigned char byte;
        CHECK(touch(mapped[i]) != 0);
        EQUALS(EINVAL, gdr_copy_from_mapping(handles[i], &byte, mapped[i], 1));
    }
    EQUALS(EINVAL, gdr_close(g));
    EQUALS(-1, *(int *)g);
    gdr_sim_free(address);
}

int main(void)
{
    gdr_t g = gdr_open();
    CHECK(g != NULL);
    versions_and_attributes(g);
    one_buffer(g);
    unaligned_buffers(g);
    mapped_in_whole_pages(g);
    freed_while_mapped(g);
    EQUALS(0, gdr_close(g));
    closed_while_mapped();
    puts("lifecycle: passed");
    return 0;
}
