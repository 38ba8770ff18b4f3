//! Compiles the simulated `libcuda.so.1` and loads it, so that the crate under test finds it
//! loaded.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use libloading::os::unix::{Library, RTLD_NOW};

/// The simulated driver with its controls. Its state is global, so tests run one at a time.
pub struct Fake {
    library: &'static Library,
    _turn: MutexGuard<'static, ()>,
}

/// Counts that the simulated driver keeps.
#[derive(Clone, Copy)]
pub enum Count {
    PrimaryContexts = 0,
    Allocations = 1,
    ContextsHere = 2,
    CaptureModeHere = 3,
    CaptureModeOfAllocation = 4,
    Operations = 5,
    Peers = 6,
    CopiedTo = 7,
    CopiedFrom = 8,
    ContextFlags = 9,
}

/// The driver in its initial state; `old` must be the same for all tests of a process.
pub fn fake(old: bool) -> Fake {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = LIBRARY.get_or_init(|| {
        let path = compile(old);
        // SAFETY: our own library, whose constructors do nothing.
        unsafe { Library::open(Some(path), RTLD_NOW) }.unwrap()
    });
    Fake { library, _turn: turn }
}

impl Fake {
    /// Makes a function return this code.
    pub fn fail(&self, function: &str, code: u32) {
        let name = CString::new(function).unwrap();
        // SAFETY: the function has this type in `libcuda.rs`, and takes a string.
        unsafe {
            let fail =
                self.library.get::<unsafe extern "C" fn(*const i8, u32)>("fake_fail").unwrap();
            fail(name.as_ptr().cast(), code);
        }
    }

    /// Makes streams busy for ever, or idle.
    pub fn busy(&self, busy: bool) {
        // SAFETY: the function has this type in `libcuda.rs`.
        unsafe { self.library.get::<extern "C" fn(u32)>("fake_busy").unwrap()(u32::from(busy)) };
    }

    /// Sets the number of GPUs; drop resets it to one.
    pub fn devices(&self, count: u32) {
        // SAFETY: the function has this type in `libcuda.rs`.
        unsafe { self.library.get::<extern "C" fn(u32)>("fake_devices").unwrap()(count) };
    }

    /// Enables or disables access between two GPUs, like other code in the process.
    pub fn peer(&self, from: u32, to: u32, on: bool) {
        // SAFETY: the function has this type in `libcuda.rs`.
        let peer =
            unsafe { self.library.get::<extern "C" fn(u32, u32, u32)>("fake_peer").unwrap() };
        peer(from, to, u32::from(on));
    }

    /// Kernels launched since the last call: `name blocksxthreads: parameters`.
    pub fn launches(&self) -> Vec<String> {
        let mut text = vec![0; 4096];
        // SAFETY: the function has this type in `libcuda.rs`, and writes at most the given length.
        let count = unsafe {
            let launches = self
                .library
                .get::<unsafe extern "C" fn(*mut u8, usize) -> usize>("fake_launches")
                .unwrap();
            launches(text.as_mut_ptr(), text.len())
        };
        String::from_utf8_lossy(&text[..count]).lines().map(str::to_owned).collect()
    }

    pub fn count(&self, what: Count) -> i64 {
        // SAFETY: the function has this type in `libcuda.rs`.
        unsafe { self.library.get::<extern "C" fn(u32) -> i64>("fake_count").unwrap()(what as u32) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.devices(1);
    }
}

/// Only `rustc`, half a second; test processes may do it at the same time.
fn compile(old: bool) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/libcuda.rs");
    let variant = if old { "old" } else { "current" };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fake-cuda-{variant}"));
    std::fs::create_dir_all(&directory).unwrap();
    let lock = std::fs::File::create(directory.join("lock")).unwrap();
    lock.lock().unwrap();
    let library = directory.join("libcuda.so.1");
    let age = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    if age(&library) > age(&source) {
        return library;
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(rustc);
    command.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=cuda"]);
    command.args(["-Copt-level=1", "-Clink-arg=-Wl,-soname,libcuda.so.1", "--check-cfg=cfg(old)"]);
    if old {
        command.args(["--cfg", "old"]);
    }
    let output = command.arg("-o").arg(&library).arg(&source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}
