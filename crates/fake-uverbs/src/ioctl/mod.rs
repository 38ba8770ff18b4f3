//! The node's ioctl protocol, limited to DEVX: firmware objects, UMEM and register pages. `FAKE_UVERBS_DEVX=1` enables it; all
//! other methods fail with EPROTONOSUPPORT, and libibverbs falls back to `write` for them (rdma-core, `_execute_ioctl_fallback` in
//! `libibverbs/cmd_fallback.c`).
//!
//! `FAKE_UVERBS_DEVX=old` is a kernel without UMEM from dma-bufs (before Linux 6.1).
//! `FAKE_UVERBS_DEVX_REFUSE=OPCODE:STATUS:SYNDROME`, all hexadecimal, makes the firmware reject that command.
//!
//! Bottom up: `attributes` (arguments of a call), `fields` (bit fields of commands), `memory` (UMEM), `queue` and `pair` (objects),
//! `firmware` (execution), `objects` (all objects), `nic` (their counterparts on the NIC), `inspect` (for tests).
//! Layouts are those of Linux `include/uapi/rdma/rdma_user_ioctl_cmds.h`, `mlx5_user_ioctl_cmds.h` and
//! `include/linux/mlx5/mlx5_ifc.h`, written independently of the code under test.

mod attributes;
mod fields;
mod firmware;
mod inspect;
mod memory;
mod nic;
mod objects;
pub mod pair;
pub mod queue;

use std::ffi::{c_int, c_ulong, c_void};

use attributes::Attributes;
use objects::objects;

/// `RDMA_VERBS_IOCTL`: `_IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr)`, 24 bytes.
const RDMA_VERBS_IOCTL: c_ulong = 0xc018_1b01;

/// `enum mlx5_ib_objects` and their methods; driver methods start at 1 << `UVERBS_ID_NS_SHIFT`.
mod number {
    pub const DEVX: u16 = 0x1000;
    pub const DEVX_OTHER: u16 = 0x1000;
    pub const DEVX_QUERY_EQN: u16 = 0x1002;

    pub const DEVX_OBJ: u16 = 0x1001;
    pub const DEVX_OBJ_CREATE: u16 = 0x1000;
    pub const DEVX_OBJ_DESTROY: u16 = 0x1001;
    pub const DEVX_OBJ_MODIFY: u16 = 0x1002;

    pub const DEVX_UMEM: u16 = 0x1002;
    pub const DEVX_UMEM_REG: u16 = 0x1000;
    pub const DEVX_UMEM_DEREG: u16 = 0x1001;

    pub const UAR: u16 = 0x1008;
    pub const UAR_OBJ_ALLOC: u16 = 0x1000;
    pub const UAR_OBJ_DESTROY: u16 = 0x1001;
}

/// The emulated kernel's DEVX support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    None,
    /// Without UMEM from dma-bufs.
    Old,
    New,
}

fn kernel() -> Kernel {
    match std::env::var_os("FAKE_UVERBS_DEVX") {
        Some(value) if value == "old" => Kernel::Old,
        Some(value) if value == "1" => Kernel::New,
        _ => Kernel::None,
    }
}

/// True if the kernel supports this protocol.
pub fn is_enabled() -> bool {
    kernel() != Kernel::None
}

/// Executes an `ioctl` of the node.
///
/// # Safety
///
/// The argument is as libibverbs writes it for this request.
pub unsafe fn answer(context: c_int, request: c_ulong, argument: *mut c_void) -> Result<(), c_int> {
    if !is_enabled() || request != RDMA_VERBS_IOCTL || argument.is_null() {
        return Err(libc::ENOTTY);
    }
    // SAFETY: the caller's guarantee.
    let mut call = unsafe { Attributes::of(argument) }?;
    let mut objects = objects();
    match (call.object, call.method) {
        (number::DEVX, number::DEVX_OTHER) => objects.query(&mut call),
        // The completion vector's event queue: an arbitrary nonzero number.
        (number::DEVX, number::DEVX_QUERY_EQN) => call.put(1, &(0x51 + call.u32(0)?).to_ne_bytes()),
        (number::DEVX_OBJ, number::DEVX_OBJ_CREATE) => objects.create(context, &mut call),
        (number::DEVX_OBJ, number::DEVX_OBJ_MODIFY) => objects.modify(context, &mut call),
        (number::DEVX_OBJ, number::DEVX_OBJ_DESTROY) => objects.destroy(context, &call),
        (number::DEVX_UMEM, number::DEVX_UMEM_REG) => {
            objects.add_memory(context, &mut call, kernel() == Kernel::New)
        }
        (number::DEVX_UMEM, number::DEVX_UMEM_DEREG) => objects.drop_memory(context, &call),
        (number::UAR, number::UAR_OBJ_ALLOC) => objects.add_page(context, &mut call),
        (number::UAR, number::UAR_OBJ_DESTROY) => objects.drop_page(context, &call),
        _ => Err(libc::EPROTONOSUPPORT),
    }
}

/// Destroys the objects of a closed context.
pub fn forget(context: c_int) {
    if is_enabled() {
        objects().close(context);
    }
}
