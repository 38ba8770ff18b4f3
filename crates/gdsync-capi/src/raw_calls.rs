//! `gds_mlx5_get_send_info` and `gds_mlx5_get_wait_info`: addresses and values, for kernels that ring and wait themselves.

use std::ffi::c_int;

use engine::Place;
use gpu::{Compare, MemOp};

use crate::abi::{BARRIER_SYS, Request, SendInfo, WaitInfo};
use crate::call_error::CallError;
use crate::request::{self, Meaning};
use crate::send_calls::requests;
use crate::{guard, pairs};

/// Tells, for each of `count` requests, what rings its doorbell: `dbrec_value` goes to `dbrec_ptr`, then after a barrier of the whole
/// system `db_value` to `db_ptr`. Requests are rung in the order in which they were prepared.
///
/// Returns 0; `EINVAL` for NULL, a negative count and what is no request to send. Nothing is written then.
///
/// # Safety
///
/// Both are NULL or arrays of so many, one to be read and one to be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_mlx5_get_send_info(
    count: c_int,
    requests: *const Request,
    mlx5_infos: *mut SendInfo,
) -> c_int {
    // SAFETY: the caller's promise.
    guard::call("gds_mlx5_get_send_info", || unsafe {
        told(count, requests, mlx5_infos, send)
    })
}

/// Tells, for each of `count` requests, what its wait is: until the word at `cqe_ptr` is to `cqe_value` as `cond` says; then `flag_value`
/// goes to `flag_ptr`, which lets the CPU poll the completion.
///
/// Returns as `gds_mlx5_get_send_info`.
///
/// # Safety
///
/// As `gds_mlx5_get_send_info`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gds_mlx5_get_wait_info(
    count: c_int,
    requests: *const Request,
    mlx5_infos: *mut WaitInfo,
) -> c_int {
    // SAFETY: the caller's promise.
    guard::call("gds_mlx5_get_wait_info", || unsafe {
        told(count, requests, mlx5_infos, wait)
    })
}

/// # Safety
///
/// Both are NULL or arrays of so many.
unsafe fn told<T>(
    count: c_int,
    from: *const Request,
    to: *mut T,
    one: impl Fn(Meaning) -> Result<T, CallError>,
) -> Result<(), CallError> {
    let count = requests(count)?;
    if count == 0 {
        return Ok(());
    }
    request::check(from)?;
    if to.is_null() {
        return Err(CallError::Null { what: "mlx5_infos" });
    }
    if !to.is_aligned() {
        let (what, alignment) = ("mlx5_infos", align_of::<T>());
        return Err(CallError::Misaligned {
            what,
            address: to.addr(),
            alignment,
        });
    }
    let mut made = Vec::new();
    for position in 0..count {
        // SAFETY: one of the array's, by the caller's promise.
        let read = unsafe { request::read(from.wrapping_add(position)) };
        let told = read.and_then(&one).map_err(|source| CallError::Descriptor {
            position,
            source: Box::new(source),
        });
        made.push(told?);
    }
    for (position, told) in made.into_iter().enumerate() {
        // SAFETY: one of the array's, by the caller's promise.
        unsafe { to.add(position).write(told) };
    }
    Ok(())
}

fn send(meaning: Meaning) -> Result<SendInfo, CallError> {
    let Meaning::Send { pair, entry } = meaning else {
        return Err(CallError::Request);
    };
    let mut info = SendInfo {
        barriers: 0,
        dbrec_ptr: std::ptr::null_mut(),
        dbrec_value: 0,
        db_ptr: std::ptr::null_mut(),
        db_value: 0,
    };
    for op in pairs::numbered(pair)?.show_send(entry)? {
        match op {
            MemOp::Write32 { at, value } => {
                (info.dbrec_ptr, info.dbrec_value) = (pointer(&at), value)
            }
            MemOp::Write64 { at, value } => (info.db_ptr, info.db_value) = (pointer(&at), value),
            // The record lies in host memory.
            _ => info.barriers = BARRIER_SYS,
        }
    }
    Ok(info)
}

fn wait(meaning: Meaning) -> Result<WaitInfo, CallError> {
    let Meaning::Wait { pair, side, index } = meaning else {
        return Err(CallError::Request);
    };
    let wait = pairs::numbered(pair)?.show_wait(side, index)?;
    let (cqe_value, compare) = wait.condition();
    Ok(WaitInfo {
        cond: match compare {
            Compare::Geq => 0,
            Compare::Eq => 1,
            Compare::And => 2,
            Compare::Nor => 3,
        },
        cqe_ptr: pointer(wait.word()),
        cqe_value,
        flag_ptr: pointer(wait.busy()),
        flag_value: 0,
    })
}

/// An address of the GPU's, which nobody here follows.
fn pointer<T>(place: &Place) -> *mut T {
    std::ptr::without_provenance_mut(place.device_address().get() as usize)
}
