//! Protection domains and memory regions.

use std::ffi::c_void;

use crate::ibv_context;

records! {
    /// A protection domain.
    "struct ibv_pd" struct ibv_pd {
        context: *mut ibv_context,
        handle: u32,
    }

    /// A memory region.
    "struct ibv_mr" struct ibv_mr {
        context: *mut ibv_context,
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        handle: u32,
        lkey: u32,
        rkey: u32,
    }
}

constants! {
    /// Access flags.
    flags ibv_access_flags {
        IBV_ACCESS_LOCAL_WRITE = 1,
        IBV_ACCESS_REMOTE_WRITE = 1 << 1,
        IBV_ACCESS_REMOTE_READ = 1 << 2,
        IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
        IBV_ACCESS_MW_BIND = 1 << 4,
        IBV_ACCESS_ZERO_BASED = 1 << 5,
        IBV_ACCESS_ON_DEMAND = 1 << 6,
        IBV_ACCESS_HUGETLB = 1 << 7,
        IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
    }

    /// Access flags that a kernel may ignore: registrations with any of them use
    /// [`ibv_reg_mr_iova2`](crate::ibv_reg_mr_iova2).
    plain ibv_access_optional {
        IBV_ACCESS_OPTIONAL_FIRST = 1 << 20,
        IBV_ACCESS_OPTIONAL_RANGE = 0x3ff0_0000,
    }
}
