//! Attributes of the device: a NIC with an InfiniBand and an Ethernet port, unlike any real one, so that one context has both
//! kinds of address.

use std::ffi::c_int;

use crate::bytes::{Answer, Request};
use crate::nic::peers;
use crate::node;
use crate::switches::switches;

/// log2 of the NIC's register page: 4 KiB (`MLX5_ADAPTER_PAGE_SIZE`).
const LOG_UAR: u32 = 12;

/// Port number.
pub const INFINIBAND: u8 = 1;
/// Port number.
pub const ETHERNET: u8 = 2;

/// GID table entries per port.
pub const GIDS: u8 = 4;

/// MTU of both ports in bytes: `active_mtu` 5.
pub const MTU: usize = 4096;

/// The InfiniBand port's LID, the first one of several processes.
pub const FIRST_LID: u16 = 0x0123;

/// `GET_CONTEXT`: answers with `struct ib_uverbs_get_context_resp`, then `struct mlx5_ib_alloc_ucontext_resp` at 8.
///
/// The request has `struct mlx5_ib_alloc_ucontext_req_v2` at 8, starting with the number of doorbell registers; the library's
/// capabilities (`lib_caps`) are at offset 24 of it.
pub fn context(request: Request) -> Result<Answer, c_int> {
    // SAFETY: no pointer arguments. Nothing ever writes to it: there are no asynchronous events.
    let events = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    let events = u32::try_from(events).map_err(|_| libc::EMFILE)?;
    let mut answer = Answer::new();
    answer.u32(0, events);
    answer.u32(4, 1); // num_comp_vectors
    answer.u32(8, 1 << 18); // qp_tab_size
    answer.u32(12, 512); // bf_reg_size: two buffers of 256 bytes
    // tot_bfregs: as requested; none for a library that allocates pages dynamically (`MLX5_LIB_CAP_DYN_UAR`), which requires DEVX.
    let allocates_pages = crate::ioctl::is_enabled() && request.u64(8 + 24) & 1 << 1 != 0;
    answer.u32(16, if allocates_pages { 0 } else { request.u32(8) });
    answer.u32(20, 64); // cache_line_size
    answer.u16(24, 1024); // max_sq_desc_sz: sixteen blocks of 64 bytes
    answer.u16(26, 512); // max_rq_desc_sz
    answer.u32(28, 1 << 15); // max_send_wqebb
    answer.u32(32, 1 << 15); // max_recv_wr
    answer.u32(36, 1 << 15); // max_srq_recv_wr
    answer.u16(40, 2); // num_ports
    answer.u32(48, 72); // response_length
    answer.u8(52, 1); // cqe_version: CQEs name a queue pair by its user index
    answer.u8(53, 1 << 1); // cmds_supp_uhw: MLX5_USER_CMDS_SUPP_UHW_CREATE_AH, the kernel resolves a MAC address
    answer.u32(64, LOG_UAR); // log_uar_size
    let per_page = u32::try_from(node::page() >> LOG_UAR).unwrap_or(1);
    answer.u32(68, per_page); // num_uars_per_page
    // `MLX5_LIB_CAP_DYN_UAR`: the library maps pages for thread domains later.
    if request.u64(8 + 24) & 1 << 1 != 0 {
        answer.u32(72, node::DYNAMIC_REGISTERS); // num_dyn_bfregs
    }
    Ok(answer)
}

/// `QUERY_DEVICE`: the members of `struct ib_uverbs_query_device_resp` that the provider reads.
pub fn device() -> Answer {
    let mut answer = Answer::new();
    answer.u64(24, u64::MAX); // max_mr_size
    answer.u64(32, 0xffff_f000); // page_size_cap
    answer.u32(40, 0x15b3); // vendor_id
    answer.u32(44, 0x1021); // vendor_part_id: ConnectX-7
    answer.u32(52, 1 << 18); // max_qp
    answer.u32(56, 1 << 15); // max_qp_wr
    answer.u32(64, 30); // max_sge
    answer.u32(72, 1 << 24); // max_cq
    answer.u32(76, (1 << 22) - 1); // max_cqe
    answer.u32(80, 1 << 24); // max_mr
    answer.u32(84, 1 << 24); // max_pd
    answer.u32(88, 16); // max_qp_rd_atom
    answer.u32(100, 16); // max_qp_init_rd_atom
    answer.u32(108, 1); // atomic_cap: IBV_ATOMIC_HCA; with none the provider refuses atomics
    answer.u8(171, 2); // phys_port_cnt
    answer
}

/// `QUERY_PORT`: `struct ib_uverbs_query_port_resp`. The port number is at offset 8 of the request.
pub fn port(request: Request) -> Result<Answer, c_int> {
    let number = request.u8(8);
    let mut answer = Answer::new();
    answer.u32(4, 1 << 30); // max_msg_sz
    answer.u32(16, GIDS.into()); // gid_tbl_len
    answer.u16(20, 1); // pkey_tbl_len
    // state: active, or down; phys_state: link up, or polling
    let (state, physical) = if switches().is_down(number) { (1, 2) } else { (4, 5) };
    answer.u8(26, state);
    answer.u8(36, physical);
    answer.u8(34, 2); // active_width: 4 lanes
    answer.u8(35, 64); // active_speed: HDR
    answer.u8(27, 5); // max_mtu: 4096
    answer.u8(28, 5); // active_mtu
    match number {
        INFINIBAND => {
            answer.u16(22, peers::lid()); // lid
            answer.u8(37, 1); // link_layer: IBV_LINK_LAYER_INFINIBAND
        }
        ETHERNET => answer.u8(37, 2), // IBV_LINK_LAYER_ETHERNET
        _ => return Err(libc::EINVAL),
    }
    Ok(answer)
}
