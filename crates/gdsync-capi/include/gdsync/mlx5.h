/*
 * gdsync/mlx5.h: addresses and values of operations, for kernels that execute them. Include gdsync.h first.
 */
#ifndef GDSYNC_MLX5_H
#define GDSYNC_MLX5_H

#ifndef __GDSYNC_H__
#error "include gdsync.h before this"
#endif

GDS_BEGIN_DECLS

/* A word that a kernel waits for. */
typedef struct gds_mlx5_dword_wait_info {
    uint32_t *ptr; /* GPU address */
    uint32_t value;
} gds_mlx5_dword_wait_info_t;

/*
 * Returns the address of a word for the GPU of the current context. For GDS_MEMORY_HOST and GDS_MEMORY_IO its pages are registered with
 * CUDA as for a descriptor. `flags` is gds_memory_type_t | gds_wait_flags_t, `value` is copied.
 */
int gds_mlx5_get_dword_wait_info(uint32_t *ptr, uint32_t value, int flags, gds_mlx5_dword_wait_info_t *mlx5_info);

/* Doorbell of a request: write dbrec_value to dbrec_ptr, a barrier, write db_value to db_ptr. Both pointers are GPU addresses. */
typedef struct gds_mlx5_send_info {
    unsigned membar : 1;      /* barrier of GPU scope */
    unsigned membar_full : 1; /* barrier of system scope (__threadfence_system) */
    uint32_t *dbrec_ptr;
    uint32_t dbrec_value;
    uint64_t *db_ptr;
    uint64_t db_value;
} gds_mlx5_send_info_t;

/* Ring requests in the order of their preparation. The requests are unchanged and can be posted instead. */
int gds_mlx5_get_send_info(int count, const gds_send_request_t *requests, gds_mlx5_send_info_t *mlx5_infos);

/* A wait: until *cqe_ptr and cqe_value satisfy `cond`; then write flag_value to flag_ptr, which lets the CPU poll. */
typedef struct gds_mlx5_wait_info {
    gds_wait_cond_flag_t cond;
    uint32_t *cqe_ptr;
    uint32_t cqe_value;
    uint32_t *flag_ptr;
    uint32_t flag_value;
} gds_mlx5_wait_info_t;

int gds_mlx5_get_wait_info(int count, const gds_wait_request_t *requests, gds_mlx5_wait_info_t *mlx5_infos);

GDS_END_DECLS

#endif /* GDSYNC_MLX5_H */
