//! Reads GPU facts from NVML (`libnvidia-ml.so.1`): one call, [`read`], returns a plain
//! [`Outcome`].
//!
//! `nvml-wrapper` opens and initialises the library. Queries use its raw functions, all in `raw`,
//! the only file here with unsafe: an unknown enumeration value stays a number, a missing symbol
//! becomes [`Reading::NotCovered`], and an error keeps NVML's code.
//!
//! Call it in a short-lived child process with a deadline: NVML can hang on a sick GPU, and
//! [`read`] intentionally leaves the library initialised.

mod codes;
mod details;
mod facts;
mod fault;
mod link_errors;
mod links;
mod mapped;
mod pairs;
mod raw;
mod reading;
mod session;
mod system;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use codes::{
    Architecture, FabricHealth, FabricState, P2p, ProtectedLinks, RemoteDevice, Virtualization,
};
pub use facts::{Bar1, ConfidentialCompute, Details, Fabric, Gpu, Link, Nvml, Pair, Unreachable};
pub use pairs::Capability;
pub use reading::Reading;

use fault::Fault;
use session::{Closed, Session};

/// What to read; each item has a cost. Names, UUIDs, addresses and minor numbers (0.01 ms each) are
/// always read; opening NVML costs 8 to 10 ms and each GPU 6.6 ms (H200, driver 580).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// State and remote end of every NVLink; microseconds each.
    pub links: bool,
    /// Five peer-to-peer statuses (1.65 ms each) for every pair of GPUs.
    pub p2p: bool,
    /// Only this peer-to-peer status.
    #[serde(default)]
    pub p2p_only: Option<Capability>,
    /// All other facts, [`Details`] and the CUDA version.
    pub details: bool,
}

/// Result of reading NVML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// NVML answered; individual facts may be missing.
    Read(Nvml),
    /// Library not found: no NVIDIA user-space driver is installed, or not in this container.
    Absent {
        /// The dynamic loader's message.
        reason: String,
    },
    /// The library exists but does not work.
    Failed {
        /// NVML return code, such as 18 (library and kernel module versions differ), 9 (module not
        /// loaded) or 4 (no permission); `None` if NVML was not called or did not return.
        code: Option<u32>,
        /// NVML's name of the code (`NVML_ERROR_LIB_RM_VERSION_MISMATCH`); without a code
        /// `library_unusable` (the loader rejected the file), `symbol_missing` (it is not NVML) or
        /// `panic`.
        name: String,
        /// Error message.
        reason: String,
    },
}

/// Reads NVML once. `library` replaces the loader's `libnvidia-ml.so.1`.
///
/// Never panics or shuts NVML down: `nvmlShutdown` takes 3.5 to 7 ms, and the calling process is
/// about to exit.
pub fn read(query: &Query, library: Option<&Path>) -> Outcome {
    // No state of ours is observed after a panic, so none can be inconsistent.
    catch_unwind(AssertUnwindSafe(|| attempt(query, library))).unwrap_or_else(|cause| {
        Outcome::Failed {
            code: None,
            name: "panic".to_owned(),
            reason: format!("the NVML reader panicked: {}", words(cause.as_ref())),
        }
    })
}

fn attempt(query: &Query, library: Option<&Path>) -> Outcome {
    match Session::open(library) {
        Ok(session) => match survey(&session, query, library) {
            Ok(nvml) => Outcome::Read(nvml),
            Err(fault) => failed(&fault),
        },
        Err(Closed::Absent(reason)) => Outcome::Absent { reason },
        Err(Closed::Unusable { name, reason }) => {
            Outcome::Failed { code: None, name: name.to_owned(), reason }
        }
        Err(Closed::Refused(fault)) => failed(&fault),
    }
}

/// Reads all requested facts; fails only if the GPUs cannot be counted.
fn survey(session: &Session, query: &Query, library: Option<&Path>) -> Result<Nvml, Fault> {
    let count = session.device_count()?;
    let mut gpus = Vec::new();
    let mut handles = Vec::new();
    let mut unreachable = Vec::new();
    for index in 0..count {
        match gpu(session, query, index) {
            Ok((handle, facts)) => {
                handles.push((index, handle));
                gpus.push(facts);
            }
            Err(fault) => unreachable.push(Unreachable {
                index,
                code: fault.code(),
                reason: fault.to_string(),
            }),
        }
    }
    Ok(Nvml {
        library: mapped::library(library),
        driver_version: session.driver_version().into(),
        cuda_driver_version: query.details.then(|| system::cuda_driver_version(session)),
        confidential_compute: system::confidential_compute(session),
        gpus,
        unreachable,
        pairs: query.p2p.then(|| pairs::read(session, &handles, query.p2p_only)),
    })
}

/// A GPU without a handle or address is unreachable, because its other facts could not be
/// attributed.
fn gpu<'s>(
    session: &'s Session,
    query: &Query,
    index: u32,
) -> Result<(raw::Device<'s>, Gpu), Fault> {
    let device = session.device(index)?;
    let facts = Gpu {
        index,
        bdf: session.bus_id(device)?,
        name: session.name(device).into(),
        uuid: session.uuid(device).into(),
        minor: session.minor_number(device).into(),
        links: query.links.then(|| links::read(session, device)),
        details: query.details.then(|| details::read(session, device)),
    };
    Ok((device, facts))
}

fn failed(fault: &Fault) -> Outcome {
    Outcome::Failed { code: fault.code(), name: fault.name(), reason: fault.to_string() }
}

/// Text of a panic, if any.
fn words(cause: &(dyn std::any::Any + Send)) -> &str {
    cause
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| cause.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
