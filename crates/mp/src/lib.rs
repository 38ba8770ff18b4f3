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
//!
//! # Types
//!
//! | type | what it is |
//! |---|---|
//! | `Bootstrap` | a trait: rank, number of ranks, and an all-gather of bytes with a deadline. `Mpi`, `Tcp`, `Files`, `Local` (threads); `Launcher` reads rank and place from the variables of Slurm, PMI and Open MPI. Only connections and windows use it |
//! | `Communicator` | the connections of one rank: a queue pair of an `Hca` for each peer, and one monitor thread |
//! | `Peer` | a connection: under one lock, the queue pair and the requests in the order of their WQEs. A failure stops the queue pair and ends all of its requests |
//! | `Region` | registered memory: a `MappedMemory`, and for staged GPU memory its copy in host memory |
//! | `Transfer` | what a request does: a send, a put or a get, of up to 30 blocks of a region |
//! | `Request` | a transfer or receive in progress. It owns its entry in the peer: waiting or dropping frees it |
//! | `Window` | every rank's memory region for puts and gets |
//! | `DescriptorQueue` | sends, waits and words that go to a stream in one batch |
//! | `Stream` | a trait: a stream of the crate `gpu`, or a C program's |
//!
//! # Rules
//!
//! - A request's CQE is known when its WQE is prepared: the CQEs of a connection come in the order of its signalled WQEs. So a stream can wait
//!   for any request at any time, and the CPU polls all others.
//! - A doorbell starts all WQEs before it. The CPU therefore rings after a stream only what the stream has already started; until then the
//!   doorbell is deferred, and the monitor rings it.
//! - Every wait has a deadline: the CPU's in its own loop, a stream's or a kernel's in the monitor, which then fails the peer. A failed peer is
//!   stopped (`Hca::stop`), so that no late message reaches memory that the program has freed, and the words that streams wait for are written.
//! - The first failed request of a peer has the cause (no receive, too long, no access, no answer, timeout) with peer, request and size; the
//!   requests after it are flushed.
//! - C programs hold numbers that are looked up, never pointers. `MPI_Comm` is a pointer or an integer, by the library that is in the process.

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
pub mod session;
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
