//! A program of descriptors against the bare calls of CUDA, on the same stream and words, in the same process, in turn:
//! `cargo bench -p gdsync --bench poll_vs_bare -- [SAMPLES]`, or the binary itself on a machine without cargo. It needs a GPU.
//!
//! Each sample puts a wait for a word and a write of another one into a stream, by one way or the other; 20 us later the CPU stores the
//! word and looks for the answer. Told are the medians of what putting in takes and of what the answer takes, and their ratios,
//! above 1 where ours is slower.

use std::ffi::c_void;
use std::io::Write as _;
use std::time::{Duration, Instant};

use gdsync::{Allocator, MemoryLocation, Place, Program};
use gpu::{Compare, Gpu, Stream, StreamCapabilities};
use libloading::{Library, Symbol};

const FLAG: usize = 0;
const REPLY: usize = 256;
const SETTLED: Duration = Duration::from_micros(20);
const SAMPLES: usize = 20_000;

/// `CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr, cuuint32_t, unsigned)`, and the same of writes.
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
        // SAFETY: the driver's library, which is loaded already.
        let library = unsafe { Library::new("libcuda.so.1") }.expect("libcuda.so.1");
        // SAFETY: the types are those of cuda.h; so below.
        let (wait, write, retain, set): (Value32, Value32, Retain, SetCurrent) = unsafe {
            let get = |name: &[u8]| -> Symbol<'_, Value32> {
                library.get(name).expect("a function of CUDA 11.7")
            };
            (
                *get(b"cuStreamWaitValue32_v2\0"),
                *get(b"cuStreamWriteValue32_v2\0"),
                *library
                    .get(b"cuDevicePrimaryCtxRetain\0")
                    .expect("a function of CUDA"),
                *library
                    .get(b"cuCtxSetCurrent\0")
                    .expect("a function of CUDA"),
            )
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: device 0 is open; its primary context is kept for as long as the process lives.
        assert_eq!(unsafe { retain(&mut context, 0) }, 0, "the primary context");
        // SAFETY: as above.
        assert_eq!(unsafe { set(context) }, 0, "the context");
        Self {
            wait,
            write,
            _library: library,
        }
    }

    fn put_in(&self, stream: &Stream, words: &Place, value: u32) {
        let address = words.address();
        let stream = stream.raw() as *mut c_void;
        // SAFETY: the words are pinned host memory, whose address is the same to the GPU, and outlive the stream's work; 0 is GEQ, and
        // the default of writes.
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
    let asked = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .next();
    let samples: usize = asked.unwrap_or(SAMPLES);
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
    let can = StreamCapabilities::of(&gpu).expect("what its streams can do");
    let bare = Bare::open();
    let mut put_in = [Vec::new(), Vec::new()];
    let mut answered = [Vec::new(), Vec::new()];
    for number in 0..samples * 2 {
        let value = number as u32 + 1;
        // Ours, bare, bare, ours: neither always comes after the other.
        let way = usize::from(matches!(number % 4, 1 | 2));
        let begun = Instant::now();
        if way == 0 {
            let mut program = Program::new();
            program
                .wait32(&words, FLAG, value, Compare::Geq)
                .write32(&words, REPLY, value);
            program.post_to(&stream, can).expect("posted");
        } else {
            bare.put_in(&stream, &words, value);
        }
        put_in[way].push(begun.elapsed().as_secs_f64() * 1e6);
        let settled = Instant::now();
        while settled.elapsed() < SETTLED {
            std::hint::spin_loop();
        }
        let begun = Instant::now();
        words.store_u32(FLAG, value).expect("a word");
        while words.load_u32(REPLY).expect("a word") != value {
            assert!(begun.elapsed() < Duration::from_secs(5), "no answer");
            std::hint::spin_loop();
        }
        answered[way].push(begun.elapsed().as_secs_f64() * 1e6);
        stream.synchronize().expect("done");
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}, {samples} samples each, us", gpu.device().name).expect("standard output");
    for (what, [ours, bare]) in [("put in", put_in), ("answer", answered)] {
        let (ours, bare) = (median(ours), median(bare));
        let ratio = ours / bare;
        writeln!(
            out,
            "{what:>8}  ours {ours:7.3}  bare {bare:7.3}  ratio {ratio:.3}"
        )
        .expect("standard output");
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[samples.len() / 2]
}
