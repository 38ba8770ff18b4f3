//! The newer protocol of the node, by `ioctl`, as far as DEVX goes: objects that commands to the NIC's firmware make, memory that they
//! name, and pages of registers. With `FAKE_UVERBS_DEVX=1` it is spoken, and every other method is answered EPROTONOSUPPORT, upon which
//! libibverbs writes that one command as before (rdma-core, `_execute_ioctl_fallback` in `libibverbs/cmd_fallback.c`).
//!
//! `FAKE_UVERBS_DEVX=old` is a kernel whose memory for commands is of no dma-buf (before Linux 6.1).
//! `FAKE_UVERBS_DEVX_REFUSE=OPCODE:STATUS:SYNDROME`, all hexadecimal, has the firmware refuse that command.
//!
//! From below: `attributes` (what a call brings), `fields` (what a command says), `memory` (what it names), `queue` and `pair` (what it
//! makes), `firmware` (who executes it), `world` (all of them), `border` (where a NIC that executes hears of them), `told` (for tests).
//! The layouts are those of Linux' `include/uapi/rdma/rdma_user_ioctl_cmds.h`, `mlx5_user_ioctl_cmds.h` and
//! `include/linux/mlx5/mlx5_ifc.h`, written apart from the code that is tested with them.

mod attributes;
mod border;
mod fields;
mod firmware;
mod memory;
pub mod pair;
pub mod queue;
mod told;
mod world;

use std::ffi::{c_int, c_ulong, c_void};

use attributes::Attributes;
use world::world;

/// `RDMA_VERBS_IOCTL`: `_IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr)`, of 24 bytes.
const RDMA_VERBS_IOCTL: c_ulong = 0xc018_1b01;

/// `enum mlx5_ib_objects`, and their methods: those of a driver begin at 1 << `UVERBS_ID_NS_SHIFT`.
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

/// What kind of kernel it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    None,
    /// Without memory for commands of a dma-buf.
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

/// Whether the kernel has this protocol.
pub fn is_spoken() -> bool {
    kernel() != Kernel::None
}

/// Answers an `ioctl` of the node, or says with which error it fails.
///
/// # Safety
///
/// The argument leads to what the request says, as libibverbs makes it.
pub unsafe fn answer(context: c_int, request: c_ulong, argument: *mut c_void) -> Result<(), c_int> {
    if !is_spoken() || request != RDMA_VERBS_IOCTL || argument.is_null() {
        return Err(libc::ENOTTY);
    }
    // SAFETY: this function's condition.
    let mut call = unsafe { Attributes::of(argument) }?;
    let mut world = world();
    match (call.object, call.method) {
        (number::DEVX, number::DEVX_OTHER) => world.ask(&mut call),
        // The vector's event queue: a number that says something.
        (number::DEVX, number::DEVX_QUERY_EQN) => call.put(1, &(0x51 + call.u32(0)?).to_ne_bytes()),
        (number::DEVX_OBJ, number::DEVX_OBJ_CREATE) => world.create(context, &mut call),
        (number::DEVX_OBJ, number::DEVX_OBJ_MODIFY) => world.modify(context, &mut call),
        (number::DEVX_OBJ, number::DEVX_OBJ_DESTROY) => world.destroy(context, &call),
        (number::DEVX_UMEM, number::DEVX_UMEM_REG) => {
            world.add_memory(context, &mut call, kernel() == Kernel::New)
        }
        (number::DEVX_UMEM, number::DEVX_UMEM_DEREG) => world.drop_memory(context, &call),
        (number::UAR, number::UAR_OBJ_ALLOC) => world.add_page(context, &mut call),
        (number::UAR, number::UAR_OBJ_DESTROY) => world.drop_page(context, &call),
        _ => Err(libc::EPROTONOSUPPORT),
    }
}

/// An open device is closed: what was made through it dies.
pub fn forget(context: c_int) {
    if is_spoken() {
        world().close(context);
    }
}
