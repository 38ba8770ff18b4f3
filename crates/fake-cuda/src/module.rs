//! Modules and launches: kernels are found by their names in the PTX text.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;

use crate::answer::{
    INVALID_HANDLE, INVALID_IMAGE, INVALID_VALUE, NOT_FOUND, Return, answer_here, held, put,
};
use crate::kernel::{self, NAMES, Parameters};
use crate::stream::{fresh_handle, stream_of};

struct Module {
    gpu: usize,
    /// Known kernels in the text.
    kernels: Vec<&'static str>,
}

#[derive(Clone, Copy)]
struct Function {
    gpu: usize,
    module: usize,
    name: &'static str,
}

static MODULES: Mutex<BTreeMap<usize, Module>> = Mutex::new(BTreeMap::new());
static FUNCTIONS: Mutex<BTreeMap<usize, Function>> = Mutex::new(BTreeMap::new());

/// For PTX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(out: *mut usize, image: *const c_void) -> Return {
    answer_here("cuModuleLoadData", |gpu| {
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and cuda.h's contract.
        let text = unsafe { CStr::from_ptr(image.cast::<c_char>()) }.to_string_lossy();
        if !text.contains(".version") {
            return Err(INVALID_IMAGE);
        }
        let has = |name: &&&str| text.contains(&format!(".entry {name}("));
        let kernels = NAMES.iter().filter(has).copied().collect();
        let handle = fresh_handle();
        held(&MODULES).insert(handle, Module { gpu, kernels });
        // SAFETY: cuda.h's contract.
        unsafe { put(out, handle) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleUnload(module: usize) -> Return {
    answer_here("cuModuleUnload", |_| {
        held(&MODULES).remove(&module).ok_or(INVALID_HANDLE)?;
        held(&FUNCTIONS).retain(|_, function| function.module != module);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(
    out: *mut usize,
    module: usize,
    name: *const c_char,
) -> Return {
    answer_here("cuModuleGetFunction", |_| {
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and cuda.h's contract.
        let wanted = unsafe { CStr::from_ptr(name) };
        let modules = held(&MODULES);
        let found = modules.get(&module).ok_or(INVALID_HANDLE)?;
        let mut kernels = found.kernels.iter();
        let name = kernels.find(|name| name.as_bytes() == wanted.to_bytes());
        let function = Function { gpu: found.gpu, module, name: name.ok_or(NOT_FOUND)? };
        let handle = fresh_handle();
        held(&FUNCTIONS).insert(handle, function);
        // SAFETY: cuda.h's contract.
        unsafe { put(out, handle) }
    })
}

/// Function and stream belong to the current context. The number of threads
/// matters to `chase` only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: usize,
    blocks_x: u32,
    blocks_y: u32,
    blocks_z: u32,
    threads_x: u32,
    threads_y: u32,
    threads_z: u32,
    _shared_bytes: u32,
    stream: usize,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Return {
    answer_here("cuLaunchKernel", |gpu| {
        let function = held(&FUNCTIONS).get(&function).copied().ok_or(INVALID_HANDLE)?;
        let stream = stream_of(stream, gpu)?;
        if function.gpu != gpu || stream.gpu != gpu {
            return Err(INVALID_HANDLE);
        }
        let blocks = [blocks_x, blocks_y, blocks_z].iter().map(|count| u64::from(*count)).product();
        let threads: u64 =
            [threads_x, threads_y, threads_z].iter().map(|count| u64::from(*count)).product();
        if blocks == 0 || !(1..=1024).contains(&threads) || parameters.is_null() || !extra.is_null()
        {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and cuda.h's contract.
        let parameters = unsafe { Parameters::new(parameters) };
        kernel::launch(function.name, &parameters, &stream, blocks)
    })
}
