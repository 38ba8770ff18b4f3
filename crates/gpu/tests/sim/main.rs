//! The simulated GPU through the public interface, with expectations computed by hand.

// Helpers unwrap too.
#![allow(clippy::unwrap_used)]

mod faults;
mod kernels;
mod lifetimes;
mod memory;
mod operations;
mod peers;
mod streams;

use std::time::Duration;

/// Longer than any test step on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Long enough to show that something does not happen.
const MOMENT: Duration = Duration::from_millis(30);

/// A simulated GPU and a stream of it.
fn sim() -> (gpu::Gpu, gpu::Stream) {
    let gpu = gpu::Gpu::sim();
    let stream = gpu.stream().unwrap();
    (gpu, stream)
}
