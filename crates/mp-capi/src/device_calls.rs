//! `mp::mlx5::get_descriptors`: three C++ overloads, exported under the names that C++ compilers give them.

use std::ffi::c_int;

use gdsync::MappedMemory;
use gpu::{Compare, DevicePtr};

use crate::abi::{self, Handle, Sem32, Sem64, SendDesc, WaitDesc};
use crate::call_error::CallError;
use crate::library::{Library, OpenRequest, library};
use crate::{guard, handles};

const NAME: &str = "mp::mlx5::get_descriptors";

/// Describes a word of host memory, for a kernel that waits for it.
///
/// # Safety
///
/// `sem` is NULL, misaligned or writable; `ptr` is NULL, misaligned, or a word that stays mapped while the kernel uses it.
#[unsafe(export_name = "_ZN2mp4mlx515get_descriptorsEPN6gdsync6isem32EPjj")]
pub unsafe extern "C" fn get_word_descriptor(sem: *mut Sem32, ptr: *mut u32, value: u32) -> c_int {
    guard::call(NAME, || {
        handles::check("sem", sem)?;
        let library = library()?;
        // SAFETY: the caller's promise.
        let word = unsafe { library.words.place(&library.gpu, ptr) }?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { sem.write(word_of(&word, value)) };
        Ok(())
    })
}

/// Describes how a kernel sends a prepared send or put.
///
/// # Safety
///
/// `desc` is NULL, misaligned or writable; `req` is NULL, misaligned or readable.
#[unsafe(export_name = "_ZN2mp4mlx515get_descriptorsEPNS0_9send_descEPP10mp_request")]
pub unsafe extern "C" fn get_send_descriptor(desc: *mut SendDesc, req: *mut Handle) -> c_int {
    guard::call(NAME, || {
        handles::check("desc", desc)?;
        let library = library()?;
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("req", req) }?;
        let found = send(&library, &*library.requests.get(handle)?)?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { desc.write(found) };
        Ok(())
    })
}

/// Describes what a kernel waits for.
///
/// # Safety
///
/// As [`get_send_descriptor`].
#[unsafe(export_name = "_ZN2mp4mlx515get_descriptorsEPNS0_9wait_descEPP10mp_request")]
pub unsafe extern "C" fn get_wait_descriptor(desc: *mut WaitDesc, req: *mut Handle) -> c_int {
    guard::call(NAME, || {
        handles::check("desc", desc)?;
        let library = library()?;
        // SAFETY: the caller's promise.
        let handle = unsafe { handles::at("req", req) }?;
        let found = wait(&library, &*library.requests.get(handle)?)?;
        // SAFETY: checked; the caller promises that it is writable.
        unsafe { desc.write(found) };
        Ok(())
    })
}

pub(crate) fn send(library: &Library, open: &OpenRequest) -> Result<SendDesc, CallError> {
    let found = library.ranks.send_descriptor(&open.request)?;
    Ok(SendDesc {
        dbrec: sem32(found.record),
        db: Sem64 { address: found.doorbell.0.get(), value: found.doorbell.1 },
    })
}

pub(crate) fn wait(library: &Library, open: &OpenRequest) -> Result<WaitDesc, CallError> {
    let found = library.ranks.wait_descriptor(&open.request)?;
    Ok(WaitDesc {
        sema_cond: match found.compare {
            Compare::Geq => abi::WAIT_GEQ,
            Compare::Eq => abi::WAIT_EQ,
            Compare::And => abi::WAIT_AND,
            Compare::Nor => abi::WAIT_NOR,
        },
        padding: 0,
        sema: sem32(found.word),
        flag: sem32(found.flag),
    })
}

/// A word for a kernel.
pub(crate) fn word_of(word: &MappedMemory, value: u32) -> Sem32 {
    sem32((word.device_address(), value))
}

fn sem32((address, value): (DevicePtr, u32)) -> Sem32 {
    Sem32 { address: address.get(), value, padding: 0 }
}
