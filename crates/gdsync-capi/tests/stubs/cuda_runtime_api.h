/* libgdsync's test programs include it, and use nothing of the CUDA runtime. Never installed. */
#include <cuda.h>
