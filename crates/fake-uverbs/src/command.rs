//! Commands of the `write` protocol: header, dispatch and response.

use std::ffi::c_int;

use crate::bytes::{Answer, Request};
use crate::device;
use crate::nic::objects;
use crate::switches::switches;

/// Upper bound of a command's length in bytes.
const MAX_COMMAND: usize = 1024;

/// `IB_USER_VERBS_CMD_FLAG_EXTENDED`. Extended commands may be unsupported: libibverbs falls back.
const EXTENDED: u32 = 0x8000_0000;

/// `IB_USER_VERBS_CMD_*` of `ib_user_verbs.h` (`enum ib_uverbs_write_cmds`).
pub mod number {
    pub const GET_CONTEXT: u32 = 0;
    pub const QUERY_DEVICE: u32 = 1;
    pub const QUERY_PORT: u32 = 2;
    pub const ALLOC_PD: u32 = 3;
    pub const DEALLOC_PD: u32 = 4;
    pub const CREATE_AH: u32 = 5;
    pub const DESTROY_AH: u32 = 8;
    pub const REG_MR: u32 = 9;
    pub const DEREG_MR: u32 = 13;
    pub const CREATE_COMP_CHANNEL: u32 = 17;
    pub const CREATE_CQ: u32 = 18;
    pub const DESTROY_CQ: u32 = 20;
    pub const CREATE_QP: u32 = 24;
    pub const QUERY_QP: u32 = 25;
    pub const MODIFY_QP: u32 = 26;
    pub const DESTROY_QP: u32 = 27;
}

/// Executes a command written to the node.
///
/// Header `struct ib_uverbs_cmd_hdr`: command number (u32), lengths of command and response in words of 4 bytes (u16 each). A
/// command with a response continues with its address (u64).
///
/// # Safety
///
/// `from` points to `length` bytes, and the response address to as many bytes as the header says.
pub unsafe fn execute(context: c_int, from: *const u8, length: usize) -> Result<(), c_int> {
    if from.is_null() || !(8..=MAX_COMMAND).contains(&length) {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller's guarantee.
    let written = unsafe { std::slice::from_raw_parts(from, length) };
    let (header, request) = written.split_at(8);
    let header = Request(header);
    let request = Request(request);
    let command = header.u32(0);
    let room = 4 * (header.u32(4) >> 16) as usize;
    if header.u32(4) & 0xffff != u32::try_from(length / 4).unwrap_or(0) && command & EXTENDED == 0 {
        return Err(libc::EINVAL);
    }
    let result = answer(context, command, request);
    trace(command, length, result.as_ref().err().copied());
    let answer = result?;
    let length = room.min(answer.bytes().len());
    if length > 0 {
        // SAFETY: the caller's guarantee; at most as many bytes as the header says are written.
        unsafe {
            std::ptr::copy_nonoverlapping(
                answer.bytes().as_ptr(),
                request.u64(0) as *mut u8,
                length,
            )
        };
    }
    Ok(())
}

fn answer(context: c_int, command: u32, request: Request) -> Result<Answer, c_int> {
    match command {
        number::GET_CONTEXT => device::context(request),
        number::QUERY_DEVICE => Ok(device::device()),
        number::QUERY_PORT => device::port(request),
        number::ALLOC_PD => Ok(objects().protection_domain(context)),
        number::DEALLOC_PD => objects().drop_protection_domain(context, request),
        number::REG_MR => objects().register(context, request),
        number::DEREG_MR => objects().deregister(context, request),
        number::CREATE_COMP_CHANNEL => objects().create_channel(context),
        number::CREATE_CQ => objects().create_completion_queue(context, request),
        number::DESTROY_CQ => objects().destroy_completion_queue(context, request),
        number::CREATE_QP => objects().create_pair(context, request),
        number::QUERY_QP => objects().query_pair(context, request),
        number::MODIFY_QP => objects().modify_pair(context, request),
        number::DESTROY_QP => objects().destroy_pair(context, request),
        number::CREATE_AH => objects().address_handle(context, request),
        number::DESTROY_AH => objects().drop_address_handle(context, request),
        _ => Err(libc::EOPNOTSUPP),
    }
}

/// Logs a command to standard error if tracing is on.
fn trace(command: u32, length: usize, error: Option<c_int>) {
    if !switches().is_traced {
        return;
    }
    let outcome = error.map_or_else(|| "done".to_owned(), |error| format!("error {error}"));
    crate::log(&format!("command {command:#x} of {length} bytes: {outcome}"));
}
