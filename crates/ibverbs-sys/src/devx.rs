//! DEVX: commands to an mlx5 NIC's firmware, and memory and registers for them, by `libmlx5.so.1`. The names are those of
//! `infiniband/mlx5dv.h`; the functions are fields of [`Mlx5dv`](crate::Mlx5dv).

use std::ffi::{c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};

records! {
    /// How a device is opened.
    "struct mlx5dv_context_attr" struct mlx5dv_context_attr {
        flags: u32,
        comp_mask: u64,
    }

    /// What a NIC knows a protection domain by.
    "struct mlx5dv_pd" struct mlx5dv_pd {
        pdn: u32,
        comp_mask: u64,
    }

    /// Memory that commands name.
    "struct mlx5dv_devx_umem" struct mlx5dv_devx_umem {
        umem_id: u32,
    }

    /// What such memory is made of: an address, or a dma-buf, in which `addr` is an offset then.
    "struct mlx5dv_devx_umem_in" struct mlx5dv_devx_umem_in {
        addr: *mut c_void,
        size: usize,
        access: u32,
        pgsz_bitmap: u64,
        comp_mask: u64,
        dmabuf_fd: c_int,
    }

    /// A page of doorbell registers.
    "struct mlx5dv_devx_uar" struct mlx5dv_devx_uar {
        reg_addr: *mut c_void,
        base_addr: *mut c_void,
        page_id: u32,
        mmap_off: i64,
        comp_mask: u64,
    }

    /// A datagram's address as it stands in a work queue entry. Numbers are big-endian; on Ethernet `rlid` is the UDP source port.
    "struct mlx5_wqe_av" struct mlx5_wqe_av {
        key: [u32; 2],
        dqp_dct: u32,
        stat_rate_sl: u8,
        fl_mlid: u8,
        rlid: u16,
        reserved0: [u8; 4],
        rmac: [u8; 6],
        tclass: u8,
        hop_limit: u8,
        grh_gid_fl: u32,
        rgid: [u8; 16],
    }
}

constants! {
    /// Of `mlx5dv_context_attr`.
    flags mlx5dv_context_attr_flags {
        MLX5DV_CONTEXT_FLAGS_DEVX = 1 << 0,
    }

    /// Of `mlx5dv_devx_umem_in`.
    flags mlx5dv_devx_umem_in_mask {
        MLX5DV_UMEM_MASK_DMABUF = 1 << 0,
    }

    /// How a page of doorbell registers is mapped: write-combined, or not cached.
    plain mlx5dv_uar_alloc_type {
        MLX5DV_UAR_ALLOC_TYPE_BF = 0,
        MLX5DV_UAR_ALLOC_TYPE_NC = 1,
    }
}

/// A page that is not cached and nobody else's; libmlx5 since rdma-core 45, and EOPNOTSUPP before. The headers of older ones, which
/// our declarations are held against, have no name for it (`mlx5dv.h` of rdma-core 45).
pub const MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED: mlx5dv_uar_alloc_type = 1 << 31;

/// An object of the NIC's that a command made: known by its address alone.
#[repr(C)]
#[derive(Debug)]
pub struct mlx5dv_devx_obj {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}
