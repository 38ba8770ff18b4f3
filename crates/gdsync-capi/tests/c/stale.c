/*
 * A program unmaps memory while it is registered with CUDA. The library's new memory does not lie there, although the kernel maps it
 * there: a GPU would access the old pages.
 */
#include "pair.h"

#include <sys/mman.h>

#define PAGE 4096

static void *stale(void)
{
    void *const page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    EQUALS(CUDA_SUCCESS, cuMemHostRegister(page, PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    return page;
}

int main(void)
{
    start();
    void *const left[] = {stale(), stale()};
    EQUALS(0, munmap(left[0], PAGE));
    EQUALS(0, munmap(left[1], PAGE));

    gds_mem_desc_t desc = {0};
    EQUALS(0, gds_alloc_mapped_memory(&desc, PAGE, GDS_MEMORY_HOST));
    CHECK(desc.h_ptr != left[0] && desc.h_ptr != left[1]);
    struct side near = new_side(near_nic()), far = new_side(remote_nic());
    join(&near, &far, gds_modify_qp);
    end_side(&near);
    end_side(&far);
    EQUALS(0, gds_free_mapped_memory(&desc));

    EQUALS(CUDA_SUCCESS, cuMemHostUnregister(left[0]));
    EQUALS(CUDA_SUCCESS, cuMemHostUnregister(left[1]));
    puts("stale: ok");
    return 0;
}
