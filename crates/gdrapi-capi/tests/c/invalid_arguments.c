/*
 * Every function with invalid arguments: NULL, closed, made up, of another session. Each returns a positive errno and
 * writes nothing.
 */
#include "check.h"

#define BYTES GPU_PAGE_SIZE

/* All functions with an invalid session. */
static void no_session(gdr_t g, gdr_mh_t handle, unsigned long address)
{
    int value = -7, other = -7;
    void *va = &value;
    gdr_mh_t fresh = {42};
    gdr_info_v2_t info;
    memset(&info, 0xcc, sizeof info);
    EQUALS(EINVAL, gdr_pin_buffer(g, address, BYTES, 0, 0, &fresh));
    EQUALS(EINVAL, gdr_pin_buffer_v2(g, address, BYTES, 0, &fresh));
    EQUALS(EINVAL, gdr_get_callback_flag(g, handle, &value));
    EQUALS(EINVAL, gdr_get_info_v2(g, handle, &info));
    EQUALS(EINVAL, gdr_map(g, handle, &va, BYTES));
    EQUALS(EINVAL, gdr_map_v2(g, handle, &va, BYTES, 0));
    EQUALS(EINVAL, gdr_unmap(g, handle, va, BYTES));
    EQUALS(EINVAL, gdr_unpin_buffer(g, handle));
    EQUALS(EINVAL, gdr_driver_get_version(g, &value, &other));
    EQUALS(EINVAL, gdr_get_attribute(g, GDR_ATTR_USE_PERSISTENT_MAPPING, &value));
    EQUALS(EINVAL, gdr_close(g));
    EQUALS(42, fresh.h);
    CHECK(value == -7 && other == -7 && va == &value && info.page_size == 0xcccccccc);
}

/* All functions with an invalid handle. */
static void no_handle(gdr_t g, gdr_mh_t handle)
{
    int value = -7;
    void *va = &value;
    gdr_info_v2_t info;
    memset(&info, 0xcc, sizeof info);
    EQUALS(EINVAL, gdr_get_callback_flag(g, handle, &value));
    EQUALS(EINVAL, gdr_get_info_v2(g, handle, &info));
    EQUALS(EINVAL, gdr_map(g, handle, &va, BYTES));
    EQUALS(EINVAL, gdr_map_v2(g, handle, &va, BYTES, 0));
    EQUALS(EINVAL, gdr_unmap(g, handle, va, BYTES));
    EQUALS(EINVAL, gdr_unpin_buffer(g, handle));
    CHECK(value == -7 && va == &value && info.page_size == 0xcccccccc);
}

static void no_copies(gdr_mh_t handle, void *mapped)
{
    char byte = 1;
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped, &byte, 1));
    EQUALS(EINVAL, gdr_copy_from_mapping(handle, &byte, mapped, 1));
    EQUALS(EINVAL, gdr_copy_to_mapping(handle, mapped, &byte, 0));
    EQUALS(EINVAL, gdr_copy_from_mapping(handle, NULL, NULL, 0));
    EQUALS(1, byte);
}

int main(void)
{
    unsigned long address = gdr_sim_allocate(4 * BYTES);
    unsigned long aligned = (address + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;
    char page[256] = {0};

    /* Before the first session there is no handle table. */
    no_copies((gdr_mh_t){1}, page);
    no_session(NULL, (gdr_mh_t){1}, aligned);

    gdr_t g = gdr_open(), other = gdr_open(), closed = gdr_open();
    CHECK(g != NULL && other != NULL && closed != NULL && g != other);
    gdr_mh_t handle, stale, foreign;
    void *mapped;
    EQUALS(0, gdr_pin_buffer(g, aligned, BYTES, 0, 0, &handle));
    EQUALS(0, gdr_map(g, handle, &mapped, BYTES));
    EQUALS(0, gdr_pin_buffer(g, aligned, BYTES, 0, 0, &stale));
    EQUALS(0, gdr_unpin_buffer(g, stale));
    EQUALS(0, gdr_pin_buffer(other, aligned, BYTES, 0, 0, &foreign));
    EQUALS(0, gdr_close(closed));

    no_session(NULL, handle, aligned);
    no_session(closed, handle, aligned);
    no_session((gdr_t)page, handle, aligned);
    no_session((gdr_t)(page + 1), handle, aligned);
    no_session((gdr_t)-1L, handle, aligned);
    no_session((gdr_t)((char *)g + 8), handle, aligned);

    /* The newest handle reuses the slot of the stale one. */
    const unsigned long made_up[] = {0, 1, (unsigned long)-1, (unsigned long)page, handle.h + 1, handle.h ^ (1UL << 40)};
    for (size_t i = 0; i < sizeof made_up / sizeof made_up[0]; ++i) {
        no_handle(g, (gdr_mh_t){made_up[i]});
        no_copies((gdr_mh_t){made_up[i]}, mapped);
    }
    no_handle(g, stale);
    no_copies(stale, mapped);
    no_handle(g, foreign);
    no_handle(other, handle);

    /* NULL out-parameters and invalid values. */
    int value = -7;
    void *va = NULL;
    gdr_mh_t fresh = {42};
    EQUALS(EINVAL, gdr_pin_buffer(g, aligned, BYTES, 0, 0, NULL));
    EQUALS(EINVAL, gdr_pin_buffer_v2(g, aligned, BYTES, 0, NULL));
    EQUALS(EINVAL, gdr_pin_buffer_v2(g, aligned, BYTES, 2, &fresh));
    EQUALS(EINVAL, gdr_pin_buffer_v2(g, aligned, BYTES, 0x80000001u, &fresh));
    EQUALS(EINVAL, gdr_pin_buffer(g, 0, BYTES, 0, 0, &fresh));
    EQUALS(EINVAL, gdr_pin_buffer(g, aligned, 0, 0, 0, &fresh));
    EQUALS(EINVAL, gdr_pin_buffer(g, aligned, (size_t)-1, 0, 0, &fresh));
    EQUALS(EINVAL, gdr_pin_buffer(g, -1UL, 1, 0, 0, &fresh));
    CHECK(gdr_pin_buffer(g, aligned, 1UL << 46, 0, 0, &fresh) > 0);
    CHECK(gdr_pin_buffer(g, 64, 64, 0, 0, &fresh) > 0);
    CHECK(gdr_pin_buffer(g, (unsigned long)page, sizeof page, 0, 0, &fresh) > 0);
    EQUALS(42, fresh.h);
    EQUALS(EINVAL, gdr_get_callback_flag(g, handle, NULL));
    EQUALS(EINVAL, gdr_get_info_v2(g, handle, NULL));
    EQUALS(EINVAL, gdr_map(g, foreign, NULL, BYTES));
    EQUALS(EINVAL, gdr_map_v2(other, foreign, NULL, BYTES, 0));
    EQUALS(EINVAL, gdr_map_v2(other, foreign, &va, BYTES, GDR_MAP_FLAG_REQ_DEVICE_MAPPING + 1));
    EQUALS(EINVAL, gdr_driver_get_version(g, NULL, &value));
    EQUALS(EINVAL, gdr_driver_get_version(g, &value, NULL));
    EQUALS(EINVAL, gdr_get_attribute(g, GDR_ATTR_USE_PERSISTENT_MAPPING, NULL));
    EQUALS(EINVAL, gdr_get_attribute(g, (gdr_attr_t)0, &value));
    EQUALS(EINVAL, gdr_get_attribute(g, GDR_ATTR_MAX, &value));
    EQUALS(EINVAL, gdr_get_attribute(g, (gdr_attr_t)-1, &value));
    EQUALS(EINVAL, gdr_get_mapping_type_string(GDR_MAPPING_TYPE_NONE, NULL));
    const char *name = page;
    EQUALS(EINVAL, gdr_get_mapping_type_string(GDR_MAPPING_TYPE_MAX, &name));
    EQUALS(EINVAL, gdr_get_mapping_type_string((gdr_mapping_type_t)-1, &name));
    gdr_runtime_get_version(NULL, NULL);
    CHECK(value == -7 && name == page);

    EQUALS(0, gdr_close(other));
    no_copies(foreign, mapped);
    EQUALS(0, gdr_close(g));
    no_copies(handle, mapped);
    gdr_sim_free(address);
    puts("invalid_arguments: passed");
    return 0;
}
