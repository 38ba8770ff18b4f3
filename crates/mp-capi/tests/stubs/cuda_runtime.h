/* What mp.h and the tests' programs use of the CUDA runtime. Never installed. */
#ifndef STUB_CUDA_RUNTIME_H
#define STUB_CUDA_RUNTIME_H

#include <cuda.h>

typedef struct CUstream_st *cudaStream_t;

#endif
