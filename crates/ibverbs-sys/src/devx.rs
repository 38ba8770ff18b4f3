//! DEVX: firmware commands of mlx5 NICs, UMEM and register pages, through `libmlx5.so.1`. Names are those of `infiniband/mlx5dv.h`; the
//! functions are fields of [`Mlx5dv`](crate::Mlx5dv).

use std::ffi::{c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};

records! {
    /// Attributes for opening a device.
    "struct mlx5dv_context_attr" struct mlx5dv_context_attr {
        flags: u32,
        comp_mask: u64,
    }

    /// The NIC's number of a protection domain.
    "struct mlx5dv_pd" struct mlx5dv_pd {
        pdn: u32,
        comp_mask: u64,
    }

    /// Memory for firmware objects.
    "struct mlx5dv_devx_umem" struct mlx5dv_devx_umem {
        umem_id: u32,
    }

    /// Source of a UMEM: an address, or a dma-buf in which `addr` is an offset.
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

    /// A datagram's address vector in a WQE, big-endian; on Ethernet `rlid` is the UDP source port.
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
    /// Flags of `mlx5dv_context_attr`.
    flags mlx5dv_context_attr_flags {
        MLX5DV_CONTEXT_FLAGS_DEVX = 1 << 0,
    }

    /// Flags of `mlx5dv_devx_umem_in`.
    flags mlx5dv_devx_umem_in_mask {
        MLX5DV_UMEM_MASK_DMABUF = 1 << 0,
    }

    /// Caching of a register page: write-combining or uncached.
    plain mlx5dv_uar_alloc_type {
        MLX5DV_UAR_ALLOC_TYPE_BF = 0,
        MLX5DV_UAR_ALLOC_TYPE_NC = 1,
    }
}

/// Uncached and exclusive; since rdma-core 45, EOPNOTSUPP before. Older headers, which the header test may use, lack the name (`mlx5dv.h` of
/// rdma-core 45).
pub const MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED: mlx5dv_uar_alloc_type = 1 << 31;

/// A firmware object, opaque.
#[repr(C)]
#[derive(Debug)]
pub struct mlx5dv_devx_obj {
    _opaque: [u8; 0],
    _marker: PhantomData<(*mut u8, PhantomPinned)>,
}
