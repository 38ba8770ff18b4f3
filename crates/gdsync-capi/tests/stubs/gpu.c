/*
 * In place of libgdsync's tests/gpu.cpp and gpu_kernels.cu, for gds_sanity and gds_poll_lat where no CUDA toolkit is: a context, a
 * stream, and no kernels, as these two launch none that matters. The functions are those of libgdsync's tests/gpu.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

/* Of the test build of the library; there is none in the one that ships. */
void gds_sim_begin(void) __attribute__((weak));

static CUdevice device;
CUstream gpu_stream, gpu_stream_server, gpu_stream_client;
int gpu_num_sm;

int gpu_dbg_enabled(void)
{
    const char *text = getenv("GPU_ENABLE_DEBUG");
    return text && atoi(text) != 0;
}

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    const char *words = "";
    cuGetErrorString(result, &words);
    fprintf(stderr, "%s: %d (%s)\n", what, (int)result, words);
    exit(EXIT_FAILURE);
}

int gpu_init(int gpu_id, int sched_mode)
{
    CUcontext context;
    int count = 0;
    char name[128] = "";
    (void)sched_mode;
    if (gds_sim_begin)
        gds_sim_begin();
    must(cuInit(0), "cuInit");
    must(cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (getenv("USE_GPU"))
        gpu_id = atoi(getenv("USE_GPU"));
    if (gpu_id < 0 || gpu_id >= count) {
        fprintf(stderr, "no GPU %d of %d\n", gpu_id, count);
        return 1;
    }
    must(cuDeviceGet(&device, gpu_id), "cuDeviceGet");
    must(cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
    fprintf(stderr, "GPU %d: %s\n", gpu_id, name);
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuStreamCreate(&gpu_stream, 0), "cuStreamCreate");
    must(cuStreamCreate(&gpu_stream_server, 0), "cuStreamCreate");
    must(cuStreamCreate(&gpu_stream_client, 0), "cuStreamCreate");
    return 0;
}

int gpu_finalize(void)
{
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    must(cuStreamDestroy(gpu_stream), "cuStreamDestroy");
    must(cuStreamDestroy(gpu_stream_server), "cuStreamDestroy");
    must(cuStreamDestroy(gpu_stream_client), "cuStreamDestroy");
    must(cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
    return 0;
}
