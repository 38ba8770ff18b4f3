//! The simulated GPU through the public interface: what a user of the crate relies on, with
//! expectations worked out by hand.

// A test that unwraps fails with a message of its own, in its helpers too.
#![allow(clippy::unwrap_used)]

mod faults;
mod kernels;
mod lifetimes;
mod memory;
mod operations;
mod peers;
mod streams;

use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Long enough to see that something does not happen.
const MOMENT: Duration = Duration::from_millis(30);
