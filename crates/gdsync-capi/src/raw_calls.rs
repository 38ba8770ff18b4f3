//! `gds_mlx5_get_send_info` and `gds_mlx5_get_wait_info`: addresses and values for kernels that ring doorbells and wait.

use std::ffi::c_int;

use engine::MappedMemory;
use gdr_sys::exports;
use gpu::{Compare, MemOp};

use crate::abi::{BARRIER_SYS, Request, SendInfo, WaitInfo};
use crate::call_error::CallError;
use crate::request::{self, Meaning};
use crate::send_calls::requests;
use crate::{flags, guard, pairs};

exports!(
    use guard::call;

    /// Returns the doorbell of each of `count` send requests: write `dbrec_value` to `dbrec_ptr`, then after a system-wide barrier
    /// `db_value` to `db_ptr`. Ring requests in the order of their preparation.
    ///
    /// Returns 0; `EINVAL` for NULL, a negative count and requests other than sends, and nothing is written.
    ///
    /// # Safety
    ///
    /// `requests` is NULL or an array of `count` readable requests, `mlx5_infos` NULL or an array of `count` writable elements.
    pub unsafe fn gds_mlx5_get_send_info(
        count: c_int,
        requests: *const Request,
        mlx5_infos: *mut SendInfo,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { write_infos(count, requests, mlx5_infos, send) }
    }

    /// Returns the wait of each of `count` wait requests: wait until the word at `cqe_ptr` and `cqe_value` satisfy `cond`, then write
    /// `flag_value` to `flag_ptr`, which lets the CPU poll the completion.
    ///
    /// Returns as `gds_mlx5_get_send_info`.
    ///
    /// # Safety
    ///
    /// As `gds_mlx5_get_send_info`.
    pub unsafe fn gds_mlx5_get_wait_info(
        count: c_int,
        requests: *const Request,
        mlx5_infos: *mut WaitInfo,
    ) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { write_infos(count, requests, mlx5_infos, wait) }
    }
);

/// Converts each request with `convert` and writes the results.
///
/// # Safety
///
/// As `gds_mlx5_get_send_info`.
unsafe fn write_infos<T>(
    count: c_int,
    from: *const Request,
    to: *mut T,
    convert: impl Fn(Meaning) -> Result<T, CallError>,
) -> Result<(), CallError> {
    let count = requests(count)?;
    if count == 0 {
        return Ok(());
    }
    request::check(from)?;
    flags::check("mlx5_infos", to)?;
    let mut infos = Vec::new();
    for position in 0..count {
        // SAFETY: an element of the array, by the caller's promise.
        let read = unsafe { request::read(from.wrapping_add(position)) };
        let info = read.and_then(&convert);
        infos.push(
            info.map_err(|source| CallError::Descriptor { position, source: Box::new(source) })?,
        );
    }
    for (position, info) in infos.into_iter().enumerate() {
        // SAFETY: an element of the array, by the caller's promise.
        unsafe { to.add(position).write(info) };
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
    for op in pairs::by_id(pair)?.expose_send(entry)? {
        match op {
            MemOp::Write32 { at, value } => {
                (info.dbrec_ptr, info.dbrec_value) = (pointer(&at), value)
            }
            MemOp::Write64 { at, value } => (info.db_ptr, info.db_value) = (pointer(&at), value),
            // System scope, because the record is in host memory.
            _ => info.barriers = BARRIER_SYS,
        }
    }
    Ok(info)
}

fn wait(meaning: Meaning) -> Result<WaitInfo, CallError> {
    let Meaning::Wait { pair, side, index } = meaning else {
        return Err(CallError::Request);
    };
    let wait = pairs::by_id(pair)?.expose_wait(side, index)?;
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

/// A GPU address, not dereferenced here.
fn pointer<T>(place: &MappedMemory) -> *mut T {
    std::ptr::without_provenance_mut(place.device_address().get() as usize)
}
