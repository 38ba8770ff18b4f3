/*
 * The functions of CUDA that examples/copy.c calls, on simulated device memory.
 */
#include <cuda.h>

#include "check.h"

CUresult cuInit(unsigned int flags)
{
    return (CUresult)flags;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    *address = gdr_sim_allocate(bytes);
    return *address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree(CUdeviceptr address)
{
    gdr_sim_free(address);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    return gdr_sim_read(from, to, bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
