//! Messages between the ranks of a program, by the CPU, CUDA streams and kernels, on any HCA of the crate `gdsync`: what libmp offers
//! C programs.
//!
//! Ranks find each other by a [`Bootstrap`] and connect ([`Communicator::connect`]). Memory is registered ([`Region`]). A rank posts
//! receives before its peers send; [`Transfer`]s are sends, puts and gets. Each is a [`Request`], which the CPU or a stream waits for.
//! Every wait has a deadline, and a failed request says why, with its peer and size.
//!
//! ```
//! use gdsync::{Allocator, MemoryLocation};
//! use gpu::Gpu;
//! use mp::bootstrap::Local;
//! use mp::{Communicator, Options, Software, Transfer};
//! use std::time::Duration;
//!
//! let threads = Local::ranks(2).into_iter().map(|rank| {
//!     std::thread::spawn(move || -> Result<(), mp::Error> {
//!         // In practice two processes, with another bootstrap and a NIC.
//!         let mut bootstrap = Box::new(rank);
//!         let allocator = Allocator::new(Gpu::sim(), None);
//!         let hca = Software::connect(&mut *bootstrap, allocator.clone(), Duration::from_secs(60))?;
//!         let ranks = Communicator::connect(bootstrap, hca, allocator, Options::default())?;
//!         let peer = 1 - ranks.rank();
//!         let memory = ranks.allocator().place(MemoryLocation::Host, 4096)?;
//!         let region = ranks.register(&memory)?;
//!         let received = ranks.receive(peer, &region, 2048..4096)?;
//!         memory.write(0, b"a message")?;
//!         // When the stream reaches it.
//!         let stream = ranks.allocator().gpu().stream().expect("a stream");
//!         let sent = ranks.start_on(&stream, &Transfer::send(peer, &region, 0..9))?;
//!         ranks.wait_on(&stream, [&received])?;
//!         assert_eq!(ranks.wait(received)?, 9);
//!         ranks.wait(sent)?;
//!         let mut seen = [0; 9];
//!         memory.read(2048, &mut seen)?;
//!         assert_eq!(&seen, b"a message");
//!         ranks.finalize()?;
//!         Ok(())
//!     })
//! });
//! for thread in threads.collect::<Vec<_>>() {
//!     thread.join().expect("no panic")?;
//! }
//! # Ok::<(), mp::Error>(())
//! ```

#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod bootstrap;
pub mod comm;
mod communicator;
mod connect;
mod descriptors;
mod device;
mod error;
pub mod launcher;
mod monitor;
#[allow(unsafe_code)]
pub mod mpi;
mod peer;
mod region;
mod request;
mod software;
mod stream;
mod transfer;
mod window;
mod words;

pub use bootstrap::Bootstrap;
pub use communicator::{Communicator, Options};
pub use descriptors::{DescriptorQueue, SendDescriptor, WaitDescriptor};
pub use device::{HcaKind, Opened, Selection};
pub use error::{Cause, Error, Failure, Operation};
pub use monitor::Report;
pub use region::Region;
pub use request::Request;
pub use software::Software;
pub use stream::Stream;
pub use transfer::{Blocks, MAX_BLOCKS, MAX_BYTES, MAX_INLINE, Transfer};
pub use window::Window;
pub use words::{Condition, MAX_WORDS};
