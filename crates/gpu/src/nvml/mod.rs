//! NVML (`libnvidia-ml.so.1`): one method for each question, with NVML's answer or its [`Failure`].
//!
//! `nvml-wrapper` opens and initialises the library. Questions use its raw functions, all in `raw`,
//! the only file here with unsafe: enumerations are NVML's numbers, so one that is newer than
//! nvml.h 13 is an answer like any other, and a missing function is [`Kind::Unsupported`].
//!
//! Ask in a short-lived child process with a deadline: NVML can hang on a sick GPU, and
//! [`Nvml`] intentionally leaves the library initialised. Opening costs 8 to 10 ms, each GPU
//! 6.6 ms (H200, driver 580).
//!
//! [`Kind::Unsupported`]: crate::Kind::Unsupported

mod failure;
mod mapped;
mod raw;
mod session;

pub use failure::{Answer, Failure};
pub use raw::{Device, Fabric};
pub use session::{Nvml, OpenError};
