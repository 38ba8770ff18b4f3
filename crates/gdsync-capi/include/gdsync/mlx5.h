/*
 * gdsync/mlx5.h: the addresses and values behind operations, for kernels that do them. Include gdsync.h first.
 */
#ifndef GDSYNC_MLX5_H
#define GDSYNC_MLX5_H

#ifndef __GDSYNC_H__
#error "include gdsync.h before this"
#endif

GDS_BEGIN_DECLS

/* A word that a kernel waits for. */
typedef struct gds_mlx5_dword_wait_info {
    uint32_t *ptr; /* for the GPU */
    uint32_t value;
} gds_mlx5_dword_wait_info_t;

/*
 * Says where the GPU of the current context finds a word; of GDS_MEMORY_HOST and GDS_MEMORY_IO its pages are registered with
 * CUDA as for a descriptor. `flags` is gds_memory_type_t | gds_wait_flags_t, `value` is handed on.
 */
int gds_mlx5_get_dword_wait_info(uint32_t *ptr, uint32_t value, int flags, gds_mlx5_dword_wait_info_t *mlx5_info);

GDS_END_DECLS

#endif /* GDSYNC_MLX5_H */
