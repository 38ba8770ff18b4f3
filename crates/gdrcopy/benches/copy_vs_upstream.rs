//! Our copies against NVIDIA's libgdrapi, on the same mapping, in the same process, in interleaved
//! pairs.
//!
//! `GDRAPI_PEER=/path/to/libgdrapi.so.2.6 cargo bench -p gdrcopy --bench copy_vs_upstream --
//! [--quick] [--fresh] [--single] [--json]`; without the variable, only ours. The memory is the
//! first GPU's, with `--ordinary` host memory. `--fresh` uses another host buffer of 128 MiB for
//! each copy instead of one that stays in the cache.
//!
//! A batch is 1 to 400 copies of at most 30 ms; its result is the median of its copies, or their
//! mean if they are too short to time alone. A pair is a batch of ours and one of the peer's, in
//! alternating order; a ratio is the median of the pairs' ratios, above 1 if ours is faster. Our
//! helpers sleep while the peer copies; waking them costs the first copies of a batch, which the
//! median excludes. `--single` makes each batch one copy, which shows the cost of a single copy.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_ulong, c_void};
use std::io::Write as _;
use std::time::{Duration, Instant};
use std::{env, fmt, mem, thread};

use gdrcopy::copy::{Caching, Copier, tuning};
use gdrcopy::{Gdr, MapRequest, Mapping, PinFlags};
use gpu::{Allocation, Gpu};

const LARGEST: usize = 16 << 20;
const HOST: usize = 128 << 20;
const PAIRS: usize = 41;
const BATCH: Duration = Duration::from_millis(30);
/// Maximum copies per batch.
const BATCHED: u32 = 400;
/// Longer copies, in nanoseconds, are timed one by one; reading the clock takes about 25.
const TIMED_ALONE: f64 = 5_000.0;
/// Time limit for pairs.
const BUDGET: Duration = Duration::from_secs(2);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [json, quick, fresh, ordinary, single] =
        ["--json", "--quick", "--fresh", "--ordinary", "--single"]
            .map(|flag| arguments.iter().any(|argument| argument == flag));
    let device = if ordinary { Device::ordinary() } else { Device::gpu() };
    let peer = env::var("GDRAPI_PEER").ok().map(|path| Peer::open(&path));
    let host = Host {
        start: Box::leak(vec![1_u8; HOST].into_boxed_slice()).as_mut_ptr(),
        fresh,
        next: Cell::new(0),
    };
    let mut out = std::io::stdout().lock();
    let mut print_line = |line: String| writeln!(out, "{line}").expect("standard output");
    if !json {
        let cpus = thread::available_parallelism().map_or(0, usize::from);
        print_line(format!("{}, {cpus} CPUs, {:?}", device.name, tuning()));
        print_line(format!("{:>9}  {:^34}  {:^34}", "", "write", "read"));
        let columns = format!("{:>10} {:>10} {:>12}", "ours ns", "peer ns", "faster");
        print_line(format!("{:>9}  {columns}  {columns}", "bytes"));
    }
    let sizes: Vec<usize> = if quick {
        vec![1, 4, 64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20]
    } else {
        (0..=24).map(|power| 1 << power).chain([3, 24, 100, 3000]).collect()
    };
    for size in sizes {
        let [write, read] =
            measure(&device, peer.as_ref(), &host, size, if single { 1 } else { BATCHED });
        print_line(if json {
            format!(r#"{{"bytes":{size},"write":{},"read":{}}}"#, write.json(), read.json())
        } else {
            format!("{size:>9}  {write}  {read}")
        });
    }
}

fn measure(
    device: &Device,
    peer: Option<&Peer>,
    host: &Host,
    size: usize,
    most: u32,
) -> [Figures; 2] {
    let (copier, at) = (device.copier, device.start);
    // SAFETY: both sides hold the largest size and are used only here; the peer's functions take
    // the same.
    let write = pairs(
        most,
        || unsafe { copier.to_device(at, host.next(size), size) },
        peer.map(|peer| {
            // SAFETY: as above.
            move || unsafe { (peer.to)(peer.handle, at.cast(), host.next(size).cast(), size) }
        }),
    );
    // SAFETY: as above.
    let read = pairs(
        most,
        || unsafe { copier.from_device(host.next(size), at, size) },
        peer.map(|peer| {
            // SAFETY: as above.
            move || unsafe { (peer.from)(peer.handle, host.next(size).cast(), at.cast(), size) }
        }),
    );
    [write, read]
}

/// Nanoseconds per copy in a batch of this size.
fn batch(copy: &dyn Fn(), times: u32) -> f64 {
    let once = || {
        let started = Instant::now();
        copy();
        started.elapsed().as_nanos() as f64
    };
    let first = once();
    if first > TIMED_ALONE {
        return median([first].into_iter().chain((1..times).map(|_| once())).collect());
    }
    let started = Instant::now();
    (0..times).for_each(|_| copy());
    started.elapsed().as_nanos() as f64 / f64::from(times)
}

fn pairs(most: u32, ours: impl Fn(), peer: Option<impl Fn() -> c_int>) -> Figures {
    let peer = peer.map(|peer| move || assert_eq!(peer(), 0, "the peer's copy"));
    let once = |copy: &dyn Fn()| (0..5).map(|_| batch(copy, 1)).fold(f64::MAX, f64::min);
    let slower = once(&ours).max(peer.as_ref().map_or(0.0, |peer| once(peer)));
    let times = (BATCH.as_nanos() as f64 / slower).clamp(1.0, f64::from(most)) as u32;
    let end = Instant::now() + BUDGET;
    let (mut mine, mut peers) = (Vec::new(), Vec::new());
    while mine.len() < PAIRS && Instant::now() < end {
        let ours_first = mine.len() % 2 == 0;
        if ours_first {
            mine.push(batch(&ours, times));
        }
        peers.extend(peer.as_ref().map(|peer| batch(peer, times)));
        if !ours_first {
            mine.push(batch(&ours, times));
        }
    }
    let ratios = mine.iter().zip(&peers).map(|(mine, peers)| peers / mine).collect();
    Figures { ours: median(mine), peer: median(peers), ratio: median(ratios) }
}

/// NaN if empty.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Medians: nanoseconds per copy, and speed-up of ours.
struct Figures {
    ours: f64,
    peer: f64,
    ratio: f64,
}

impl Figures {
    fn json(&self) -> String {
        let number = |value: f64| {
            if value.is_nan() { "null".to_owned() } else { format!("{value:.3}") }
        };
        let [ours, peer, ratio] = [self.ours, self.peer, self.ratio].map(number);
        format!(r#"{{"ours_ns":{ours},"peer_ns":{peer},"faster":{ratio}}}"#)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.0} {:>10.0} {:>11.3}x", self.ours, self.peer, self.ratio)
    }
}

/// Host memory: the same bytes for each copy, or others.
struct Host {
    start: *mut u8,
    fresh: bool,
    next: Cell<usize>,
}

impl Host {
    fn next(&self, size: usize) -> *mut u8 {
        if self.fresh {
            let step = size.next_multiple_of(64);
            let next = self.next.get() + step;
            self.next.set(if next + size > HOST { 0 } else { next });
        }
        self.start.wrapping_add(self.next.get())
    }
}

/// Source and destination.
struct Device {
    name: String,
    start: *mut u8,
    copier: Copier,
    /// Keeps the GPU's memory mapped.
    _mapping: Option<Mapping>,
}

impl Device {
    fn gpu() -> Device {
        let gdr = Gdr::open().expect("a backend");
        let gpu = Gpu::open(0).expect("a GPU");
        let memory = gpu.allocate(Allocation::Malloc, LARGEST).expect("memory");
        let pin = gdr.pin(&memory, 0..LARGEST, PinFlags::default()).expect("a pin");
        let mapping = pin.map(MapRequest::Default).expect("a mapping");
        Device {
            name: format!("{} by {}", gpu.device().name, gdr.backend()),
            start: mapping.as_ptr().as_ptr(),
            copier: mapping.copier(),
            _mapping: Some(mapping),
        }
    }

    fn ordinary() -> Device {
        Device {
            name: "ordinary memory".to_owned(),
            start: Box::leak(vec![0_u8; LARGEST].into_boxed_slice()).as_mut_ptr(),
            copier: Copier::for_caching(Caching::WriteCombining).expect("the environment's choice"),
            _mapping: None,
        }
    }
}

/// `gdr_copy_to_mapping` and `gdr_copy_from_mapping`: handle, destination, source, bytes. The
/// handle is a structure of one word, passed as that word.
type Copy = unsafe extern "C" fn(c_ulong, *mut c_void, *const c_void, usize) -> c_int;

/// The peer's copy functions, with a hand-made handle.
struct Peer {
    to: Copy,
    from: Copy,
    handle: c_ulong,
}

impl Peer {
    /// Opens the library and calls gdr_open, which detects the CPU: otherwise libgdrapi copies with
    /// a plain loop.
    fn open(path: &str) -> Peer {
        let path = CString::new(path).expect("a path");
        // SAFETY: a library that the user chose, with the functions of gdrapi.h.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "cannot open the library in GDRAPI_PEER");
            let symbol = |name: &CStr| {
                let found = libc::dlsym(library, name.as_ptr());
                assert!(!found.is_null(), "the library in GDRAPI_PEER has no {name:?}");
                found
            };
            let open = mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(
                symbol(c"gdr_open"),
            );
            assert!(
                !open().is_null(),
                "the peer's gdr_open failed; it needs its driver to detect the CPU"
            );
            Peer {
                to: mem::transmute::<*mut c_void, Copy>(symbol(c"gdr_copy_to_mapping")),
                from: mem::transmute::<*mut c_void, Copy>(symbol(c"gdr_copy_from_mapping")),
                handle: Box::leak(Box::new(handle())).as_ptr().addr() as c_ulong,
            }
        }
    }
}

/// gdr_memh_t of v2.6 on 64-bit machines: 104 bytes, of which the copies read only the mapping type
/// at 16; 1 is write-combining.
fn handle() -> [u64; 13] {
    let mut handle = [0; 13];
    handle[2] = 1;
    handle
}
