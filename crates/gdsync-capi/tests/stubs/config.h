/*
 * What libgdsync's configure writes for its test programs: whether they use GDS_TAG_WRITE_MEMORY. This library always has it, if
 * not by the CUDA operation of that name, which never became public.
 */
#ifndef HAVE_DECL_CU_STREAM_MEM_OP_WRITE_MEMORY
#define HAVE_DECL_CU_STREAM_MEM_OP_WRITE_MEMORY 1
#endif
