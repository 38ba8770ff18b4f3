//! Call overhead: nanoseconds per call of frequent functions, against the copy kernel called
//! directly, on SIMULATED device memory.
//!
//! ```sh
//! cargo bench -p gdrapi-capi --bench calls
//! ```

#![expect(clippy::print_stdout, reason = "prints results")]

use std::hint::black_box;
use std::time::Instant;

use gdrapi::abi::{Handle, InfoV2};
use gdrcopy::copy::{Caching, Copier};

const BYTES: usize = 1 << 16;
/// Calls per sample; the median of [`SAMPLES`] is printed.
const CALLS: u32 = 20_000;
const SAMPLES: usize = 101;

fn main() {
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("GDR_BACKEND", "sim") };
    let gpu = gpu::Gpu::sim();
    let memory = gpu.allocate(gpu::Allocation::Malloc, 2 * BYTES).expect("simulated memory");
    let address = memory.address().get().next_multiple_of(BYTES as u64);
    let g = gdrapi::gdr_open();
    assert!(!g.is_null());
    let mut handle = Handle::default();
    let mut mapped = std::ptr::null_mut();
    let mut host = vec![1_u8; BYTES];
    // SAFETY: the out-parameters are the variables above.
    unsafe {
        assert_eq!(gdrapi::gdr_pin_buffer(g, address, BYTES, 0, 0, &raw mut handle), 0);
        assert_eq!(gdrapi::gdr_map(g, handle, &raw mut mapped, BYTES), 0);
    }
    let copier = Copier::for_caching(Caching::WriteCombining)
        .expect("valid GDR_COPY_KERNEL and GDR_COPY_THREADS");
    println!("bytes  gdr_copy_to_mapping  direct   gdr_copy_from_mapping  direct   (ns a call)");
    for bytes in [1, 8, 64, 256, 1024] {
        let host = host.as_mut_ptr();
        // SAFETY: `bytes` bytes are mapped at `mapped` and owned at `host`, and neither moves.
        let [to, to_direct, from, from_direct] = unsafe {
            [
                median(|| {
                    black_box(gdrapi::gdr_copy_to_mapping(handle, mapped, host.cast(), bytes))
                }),
                median(|| copier.to_device(black_box(mapped.cast()), host, bytes)),
                median(|| {
                    black_box(gdrapi::gdr_copy_from_mapping(handle, host.cast(), mapped, bytes))
                }),
                median(|| copier.from_device(black_box(host), mapped.cast(), bytes)),
            ]
        };
        println!("{bytes:>5}  {to:>19.2}  {to_direct:>6.2}   {from:>21.2}  {from_direct:>6.2}");
    }
    let mut info = InfoV2::default();
    // SAFETY: `info` is writable.
    let info_time =
        median(|| unsafe { black_box(gdrapi::gdr_get_info_v2(g, handle, &raw mut info)) });
    println!("gdr_get_info_v2: {info_time:.0} ns");
    assert_eq!(gdrapi::gdr_close(g), 0);
}

/// Nanoseconds per call.
fn median<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                call();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    samples[SAMPLES / 2]
}
