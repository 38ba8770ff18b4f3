/*
 * Writes GPU memory with the CPU, lets the GPU read it back, and compares.
 *
 *     cc -o copy copy.c $(pkg-config --cflags --libs gdrapi) -I/usr/local/cuda/include -lcuda
 */
#include <stdio.h>
#include <string.h>

#include <cuda.h>
#include <gdrapi.h>

/* A mapping begins on a boundary of 64 KiB, so the memory is larger by one page. */
enum { BYTES = 4 * GPU_PAGE_SIZE };

static unsigned char sent[BYTES], received[BYTES];

static int fail(const char *what)
{
    fprintf(stderr, "%s failed\n", what);
    return 1;
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context))
        return fail("the start of CUDA");
    if (cuMemAlloc(&memory, BYTES + GPU_PAGE_SIZE))
        return fail("cuMemAlloc");
    CUdeviceptr aligned = (memory + GPU_PAGE_OFFSET) & GPU_PAGE_MASK;

    gdr_t gdr = gdr_open();
    if (!gdr)
        return fail("gdr_open; gdr doctor says why");
    gdr_mh_t handle;
    if (gdr_pin_buffer(gdr, aligned, BYTES, 0, 0, &handle))
        return fail("gdr_pin_buffer");
    void *mapping;
    if (gdr_map(gdr, handle, &mapping, BYTES))
        return fail("gdr_map");

    memset(sent, 0x5a, BYTES);
    if (gdr_copy_to_mapping(handle, mapping, sent, BYTES))
        return fail("gdr_copy_to_mapping");
    if (cuMemcpyDtoHAsync(received, aligned, BYTES, 0) || cuCtxSynchronize())
        return fail("cuMemcpyDtoHAsync");
    int differs = memcmp(sent, received, BYTES);

    gdr_unmap(gdr, handle, mapping, BYTES);
    gdr_unpin_buffer(gdr, handle);
    gdr_close(gdr);
    cuMemFree(memory);
    if (differs)
        return fail("the comparison");
    printf("%d bytes copied by the CPU and read by the GPU\n", BYTES);
    return 0;
}
