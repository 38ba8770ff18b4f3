//! Compares a `Program` with direct CUDA calls, on the same stream and words, alternating in one process:
//! `cargo bench -p gdsync --bench poll_vs_bare -- [SAMPLES]`, or the binary itself. Needs a GPU.
//!
//! Each sample posts a wait for a word and a write of another one; 20 us later the CPU stores the first word and polls the other. Prints
//! the median times of posting and of the answer, and their ratios, above 1 if ours is slower.

use std::ffi::c_void;
use std::io::Write as _;
use std::time::{Duration, Instant};

use gdsync::{Allocator, MappedMemory, MemoryLocation, Program};
use gpu::{Compare, Gpu, Stream, StreamCapabilities};
use libloading::{Library, Symbol};

const FLAG: usize = 0;
const REPLY: usize = 256;
const SETTLED: Duration = Duration::from_micros(20);
const SAMPLES: usize = 20_000;

/// `CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, cuuint32_t, unsigned)`, and `cuStreamWriteValue32_v2`.
type Value32 = unsafe extern "C" fn(*mut c_void, u64, u32, u32) -> i32;
/// `CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice)`.
type Retain = unsafe extern "C" fn(*mut *mut c_void, i32) -> i32;
/// `CUresult cuCtxSetCurrent(CUcontext)`.
type SetCurrent = unsafe extern "C" fn(*mut c_void) -> i32;

struct Bare {
    wait: Value32,
    write: Value32,
    _library: Library,
}

impl Bare {
    fn open() -> Self {
        // SAFETY: the driver's library is already loaded.
        let library = unsafe { Library::new("libcuda.so.1") }.expect("libcuda.so.1");
        // SAFETY: the types are those of cuda.h.
        let (wait, write, retain, set): (Value32, Value32, Retain, SetCurrent) = unsafe {
            let get = |name: &[u8]| -> Symbol<'_, Value32> {
                library.get(name).expect("a function of CUDA 11.7")
            };
            (
                *get(b"cuStreamWaitValue32_v2\0"),
                *get(b"cuStreamWriteValue32_v2\0"),
                *library.get(b"cuDevicePrimaryCtxRetain\0").expect("a function of CUDA"),
                *library.get(b"cuCtxSetCurrent\0").expect("a function of CUDA"),
            )
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: device 0 is open, and its primary context lives as long as the process.
        assert_eq!(unsafe { retain(&mut context, 0) }, 0, "the primary context");
        // SAFETY: as above.
        assert_eq!(unsafe { set(context) }, 0, "the context");
        Self { wait, write, _library: library }
    }

    fn post(&self, stream: &Stream, words: &MappedMemory, value: u32) {
        let address = words.address();
        let stream = stream.raw() as *mut c_void;
        // SAFETY: the words are pinned host memory with the same GPU address, and outlive the stream's work; flags 0 are GEQ and the
        // default of writes.
        let answers = unsafe {
            [
                (self.wait)(stream, address + FLAG as u64, value, 0),
                (self.write)(stream, address + REPLY as u64, value, 0),
            ]
        };
        assert_eq!(answers, [0, 0], "CUDA");
    }
}

fn main() {
    let argument = std::env::args().filter_map(|argument| argument.parse().ok()).next();
    let samples: usize = argument.unwrap_or(SAMPLES);
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            writeln!(std::io::stdout(), "no GPU to measure: {error}").expect("standard output");
            return;
        }
    };
    let allocator = Allocator::new(gpu.clone(), None);
    let words = allocator.place(MemoryLocation::Host, 4096).expect("words");
    let stream = gpu.stream().expect("a stream");
    let can = StreamCapabilities::of(&gpu).expect("stream capabilities");
    let bare = Bare::open();
    let mut posted = [Vec::new(), Vec::new()];
    let mut answered = [Vec::new(), Vec::new()];
    for number in 0..samples * 2 {
        let value = number as u32 + 1;
        // Ours, bare, bare, ours: neither always follows the other.
        let which = usize::from(matches!(number % 4, 1 | 2));
        let start = Instant::now();
        if which == 0 {
            let mut program = Program::new();
            program.wait32(&words, FLAG, value, Compare::Geq).write32(&words, REPLY, value);
            program.post_to(&stream, can).expect("posted");
        } else {
            bare.post(&stream, &words, value);
        }
        posted[which].push(start.elapsed().as_secs_f64() * 1e6);
        let settled = Instant::now();
        while settled.elapsed() < SETTLED {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        words.store_u32(FLAG, value).expect("a word");
        while words.load_u32(REPLY).expect("a word") != value {
            assert!(start.elapsed() < Duration::from_secs(5), "no answer");
            std::hint::spin_loop();
        }
        answered[which].push(start.elapsed().as_secs_f64() * 1e6);
        stream.synchronize().expect("done");
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}, {samples} samples each, us", gpu.device().name).expect("standard output");
    for (what, [ours, bare]) in [("post", posted), ("answer", answered)] {
        let (ours, bare) = (median(ours), median(bare));
        let ratio = ours / bare;
        writeln!(out, "{what:>8}  ours {ours:7.3}  bare {bare:7.3}  ratio {ratio:.3}")
            .expect("standard output");
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[samples.len() / 2]
}
