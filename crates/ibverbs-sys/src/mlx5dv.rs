//! Direct verbs of mlx5: memory of queue pairs and completion queues, through `libmlx5.so.1`, opened on first use; its functions include
//! those of DEVX. Names are those of `infiniband/mlx5dv.h`.

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use gdr_sys::loader::Opened;
use gdr_sys::process::SetOnce;

use crate::library::OpenError;
use crate::{
    ibv_ah, ibv_context, ibv_cq, ibv_device, ibv_mr, ibv_pd, ibv_qp, ibv_qp_init_attr_ex,
    mlx5_wqe_av, mlx5dv_context_attr, mlx5dv_devx_obj, mlx5dv_devx_uar, mlx5dv_devx_umem,
    mlx5dv_devx_umem_in, mlx5dv_pd,
};

/// Not `libmlx5.so`, which belongs to development packages.
const NAME: &str = "libmlx5.so.1";

records! {
    /// Memory of a queue pair: rings, doorbell records (receive, send) and the doorbell register.
    "struct mlx5dv_qp" struct mlx5dv_qp {
        dbrec: *mut u32,
        sq_buf: *mut c_void = "sq.buf",
        sq_wqe_cnt: u32 = "sq.wqe_cnt",
        sq_stride: u32 = "sq.stride",
        rq_buf: *mut c_void = "rq.buf",
        rq_wqe_cnt: u32 = "rq.wqe_cnt",
        rq_stride: u32 = "rq.stride",
        bf_reg: *mut c_void = "bf.reg",
        bf_size: u32 = "bf.size",
        comp_mask: u64,
        uar_mmap_offset: i64,
        tirn: u32,
        tisn: u32,
        rqn: u32,
        sqn: u32,
        tir_icm_addr: u64,
    }

    /// Memory of a completion queue: ring and doorbell records (consumer index, arm).
    "struct mlx5dv_cq" struct mlx5dv_cq {
        buf: *mut c_void,
        dbrec: *mut u32,
        cqe_cnt: u32,
        cqe_size: u32,
        cq_uar: *mut c_void,
        cqn: u32,
        comp_mask: u64,
    }

    /// A datagram's address vector in a WQE: 48 bytes.
    "struct mlx5dv_ah" struct mlx5dv_ah {
        av: *mut mlx5_wqe_av,
        comp_mask: u64,
    }

    /// The object, and the output structure.
    "struct mlx5dv_obj" struct mlx5dv_obj {
        qp_in: *mut ibv_qp = "qp.in",
        qp_out: *mut mlx5dv_qp = "qp.out",
        cq_in: *mut ibv_cq = "cq.in",
        cq_out: *mut mlx5dv_cq = "cq.out",
        srq_in: *mut c_void = "srq.in",
        srq_out: *mut c_void = "srq.out",
        rwq_in: *mut c_void = "rwq.in",
        rwq_out: *mut c_void = "rwq.out",
        dm_in: *mut c_void = "dm.in",
        dm_out: *mut c_void = "dm.out",
        ah_in: *mut ibv_ah = "ah.in",
        ah_out: *mut mlx5dv_ah = "ah.out",
        pd_in: *mut ibv_pd = "pd.in",
        pd_out: *mut mlx5dv_pd = "pd.out",
    }

    /// Attributes of a dynamically connected queue pair.
    "struct mlx5dv_dc_init_attr" struct mlx5dv_dc_init_attr {
        dc_type: c_int,
        dct_access_key: u64,
    }

    /// mlx5 attributes of a queue pair.
    "struct mlx5dv_qp_init_attr" struct mlx5dv_qp_init_attr {
        comp_mask: u64,
        create_flags: u32,
        dc_init_attr: mlx5dv_dc_init_attr,
        send_ops_flags: u64,
    }
}

constants! {
    /// Object types of `mlx5dv_init_obj`.
    flags mlx5dv_obj_type {
        MLX5DV_OBJ_QP = 1 << 0,
        MLX5DV_OBJ_CQ = 1 << 1,
        MLX5DV_OBJ_AH = 1 << 5,
        MLX5DV_OBJ_PD = 1 << 6,
    }

    /// Valid fields of `mlx5dv_qp_init_attr`.
    flags mlx5dv_qp_init_attr_mask {
        MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS = 1 << 0,
    }

    /// Creation flags of a queue pair.
    flags mlx5dv_qp_create_flags {
        MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE = 1 << 3,
    }
}

/// The library's functions; `None` if the library lacks one.
#[derive(Debug)]
#[non_exhaustive]
pub struct Mlx5dv {
    /// True if the device is an mlx5 device.
    pub mlx5dv_is_supported: Option<unsafe extern "C" fn(*mut ibv_device) -> bool>,
    /// Returns the memory of objects of `mlx5dv_obj_type`; 0, or an error number.
    pub mlx5dv_init_obj: Option<unsafe extern "C" fn(*mut mlx5dv_obj, u64) -> c_int>,
    /// Creates a queue pair; since rdma-core 19.
    pub mlx5dv_create_qp: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *mut ibv_qp_init_attr_ex,
            *mut mlx5dv_qp_init_attr,
        ) -> *mut ibv_qp,
    >,
    /// Opens a device with attributes; since rdma-core 21, like the functions below unless noted.
    pub mlx5dv_open_device:
        Option<unsafe extern "C" fn(*mut ibv_device, *mut mlx5dv_context_attr) -> *mut ibv_context>,
    /// Executes a command that creates an object.
    pub mlx5dv_devx_obj_create: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *const c_void,
            usize,
            *mut c_void,
            usize,
        ) -> *mut mlx5dv_devx_obj,
    >,
    /// Executes a query of an object; 0, or an error number.
    pub mlx5dv_devx_obj_query: Option<ObjectCommand>,
    /// Executes a command that changes an object; 0, or an error number.
    pub mlx5dv_devx_obj_modify: Option<ObjectCommand>,
    /// Destroys an object.
    pub mlx5dv_devx_obj_destroy: Option<unsafe extern "C" fn(*mut mlx5dv_devx_obj) -> c_int>,
    /// Executes a command without an object; 0, or an error number.
    pub mlx5dv_devx_general_cmd: Option<
        unsafe extern "C" fn(*mut ibv_context, *const c_void, usize, *mut c_void, usize) -> c_int,
    >,
    /// Registers a UMEM by its address.
    pub mlx5dv_devx_umem_reg: Option<
        unsafe extern "C" fn(*mut ibv_context, *mut c_void, usize, u32) -> *mut mlx5dv_devx_umem,
    >,
    /// Registers a UMEM; since rdma-core 35, dma-bufs since rdma-core 43.
    pub mlx5dv_devx_umem_reg_ex: Option<
        unsafe extern "C" fn(*mut ibv_context, *mut mlx5dv_devx_umem_in) -> *mut mlx5dv_devx_umem,
    >,
    /// Deregisters a UMEM.
    pub mlx5dv_devx_umem_dereg: Option<unsafe extern "C" fn(*mut mlx5dv_devx_umem) -> c_int>,
    /// Allocates a page of doorbell registers.
    pub mlx5dv_devx_alloc_uar:
        Option<unsafe extern "C" fn(*mut ibv_context, u32) -> *mut mlx5dv_devx_uar>,
    /// Frees it.
    pub mlx5dv_devx_free_uar: Option<unsafe extern "C" fn(*mut mlx5dv_devx_uar)>,
    /// The event queue number of a completion vector; 0, or an error number.
    pub mlx5dv_devx_query_eqn:
        Option<unsafe extern "C" fn(*mut ibv_context, u32, *mut u32) -> c_int>,
    /// Registers a dma-buf with mlx5's own access flags (the last argument); since rdma-core 54, like the function below.
    pub mlx5dv_reg_dmabuf_mr: Option<
        unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int, c_int) -> *mut ibv_mr,
    >,
    /// Writes the path of the device's Data Direct function, as a C string; 0, or an error number: ENODEV without one.
    pub mlx5dv_get_data_direct_sysfs_path:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut c_char, usize) -> c_int>,
    path: PathBuf,
}

/// Access flag of `mlx5dv_reg_dmabuf_mr`: the NIC uses its Data Direct function. Headers before rdma-core 54 lack it.
pub const MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT: c_int = 1 << 0;

/// A command on an object: object, command and its length, response buffer and its length.
pub type ObjectCommand =
    unsafe extern "C" fn(*mut mlx5dv_devx_obj, *const c_void, usize, *mut c_void, usize) -> c_int;

impl Mlx5dv {
    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The process's libmlx5, opened on first use and kept open until the process ends. It is the same file that libibverbs loads as its
/// provider.
///
/// # Errors
///
/// [`OpenError`], with the loader's message.
pub fn mlx5dv() -> Result<&'static Mlx5dv, OpenError> {
    static LIBRARY: SetOnce<Mlx5dv> = SetOnce::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = open(Path::new(NAME))?;
    Ok(LIBRARY.set(library).unwrap_or_else(|first| first))
}

fn open(path: &Path) -> Result<Mlx5dv, OpenError> {
    // SAFETY: the constructor of libmlx5 registers a provider with libibverbs and has no preconditions.
    let opened = unsafe { Opened::open(path, libc::RTLD_NOW) }
        .map_err(|error| OpenError::of(NAME, error))?;
    let path = opened.file_of("mlx5dv_init_obj").unwrap_or_else(|| path.to_owned());
    let library = Mlx5dv {
        mlx5dv_is_supported: symbol!(opened, mlx5dv_is_supported),
        mlx5dv_init_obj: symbol!(opened, mlx5dv_init_obj),
        mlx5dv_create_qp: symbol!(opened, mlx5dv_create_qp),
        mlx5dv_open_device: symbol!(opened, mlx5dv_open_device),
        mlx5dv_devx_obj_create: symbol!(opened, mlx5dv_devx_obj_create),
        mlx5dv_devx_obj_query: symbol!(opened, mlx5dv_devx_obj_query),
        mlx5dv_devx_obj_modify: symbol!(opened, mlx5dv_devx_obj_modify),
        mlx5dv_devx_obj_destroy: symbol!(opened, mlx5dv_devx_obj_destroy),
        mlx5dv_devx_general_cmd: symbol!(opened, mlx5dv_devx_general_cmd),
        mlx5dv_devx_umem_reg: symbol!(opened, mlx5dv_devx_umem_reg),
        mlx5dv_devx_umem_reg_ex: symbol!(opened, mlx5dv_devx_umem_reg_ex),
        mlx5dv_devx_umem_dereg: symbol!(opened, mlx5dv_devx_umem_dereg),
        mlx5dv_devx_alloc_uar: symbol!(opened, mlx5dv_devx_alloc_uar),
        mlx5dv_devx_free_uar: symbol!(opened, mlx5dv_devx_free_uar),
        mlx5dv_devx_query_eqn: symbol!(opened, mlx5dv_devx_query_eqn),
        mlx5dv_reg_dmabuf_mr: symbol!(opened, mlx5dv_reg_dmabuf_mr),
        mlx5dv_get_data_direct_sysfs_path: symbol!(opened, mlx5dv_get_data_direct_sysfs_path),
        path,
    };
    opened.keep();
    Ok(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn missing_file() {
        match open(Path::new("/nowhere/libmlx5.so.1")) {
            Err(OpenError::Absent { name, words }) => {
                assert_eq!(name, "libmlx5.so.1");
                assert!(words.contains("No such file or directory"), "{words}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no libraries")]
    fn library_without_functions() {
        let library = open(Path::new("libc.so.6")).expect("every process has one");
        assert!(library.mlx5dv_init_obj.is_none() && library.mlx5dv_create_qp.is_none());
    }
}
