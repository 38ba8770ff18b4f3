//! A SIMULATED CUDA (crate `fake-cuda`) in this process, with a current context and streams.

use std::ffi::{CString, c_int, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;

use fakes::{Driver, cuda};

/// A library's function, by its name in C.
macro_rules! function {
    ($library:expr, fn $name:ident($($type:ty),*)) => {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(
            libc::dlsym($library, CString::new(stringify!($name)).unwrap().as_ptr()))
    };
}

pub struct Cuda<const STREAMS: usize> {
    pub context: usize,
    pub streams: [usize; STREAMS],
    synchronize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// Opens a library for the process.
pub fn library(directory: PathBuf, name: &str) -> *mut c_void {
    let path = CString::new(directory.join(name).to_str().unwrap()).unwrap();
    // SAFETY: a path; the library stays open, and whoever asks for its name is given it.
    let opened = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    assert!(!opened.is_null(), "{path:?}");
    opened
}

impl<const STREAMS: usize> Cuda<STREAMS> {
    /// # Safety
    ///
    /// Nothing else runs yet. `FAKE_CUDA` names a machine file.
    pub unsafe fn new() -> Self {
        let driver = library(cuda::build(Driver::Current).unwrap(), "libcuda.so.1");
        // SAFETY: the functions are called as cuda.h says.
        unsafe {
            let mut context: *mut c_void = null_mut();
            assert_eq!(function!(driver, fn cuInit(u32))(0), 0);
            assert_eq!(
                function!(driver, fn cuDevicePrimaryCtxRetain(*mut *mut c_void, c_int))(
                    &raw mut context,
                    0
                ),
                0
            );
            assert_eq!(function!(driver, fn cuCtxSetCurrent(*mut c_void))(context), 0);
            let mut streams = [0; STREAMS];
            for stream in &mut streams {
                let mut made: *mut c_void = null_mut();
                assert_eq!(
                    function!(driver, fn cuStreamCreate(*mut *mut c_void, u32))(&raw mut made, 1),
                    0
                );
                *stream = made.expose_provenance();
            }
            Self {
                context: context.expose_provenance(),
                streams,
                synchronize: function!(driver, fn cuStreamSynchronize(*mut c_void)),
            }
        }
    }

    /// A stream; of 255 one that does not exist.
    pub fn stream(&self, stream: u8) -> *mut c_void {
        match stream {
            255 => std::ptr::without_provenance_mut(0x12_3450),
            stream => {
                std::ptr::with_exposed_provenance_mut(self.streams[usize::from(stream) % STREAMS])
            }
        }
    }

    /// Waits for all streams.
    pub fn synchronize(&self) {
        for &stream in &self.streams {
            // SAFETY: streams live as long as the process.
            let code = unsafe { (self.synchronize)(std::ptr::with_exposed_provenance_mut(stream)) };
            assert_eq!(code, 0);
        }
    }
}
