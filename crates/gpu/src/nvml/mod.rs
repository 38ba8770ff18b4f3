//! What NVML (`libnvidia-ml.so.1`) says of the GPUs: one call, [`read`], one plain value, [`Outcome`].
//!
//! `nvml-wrapper` opens and initialises the library. The questions go to the raw functions behind it, all in `raw`, the
//! only file here with unsafe: an enumeration value newer than the binding stays a number instead of an error, a symbol an
//! older driver lacks becomes [`Reading::NotCovered`], and an error keeps NVML's own code.
//!
//! The caller is expected to be a short-lived child process with a deadline: NVML can hang on a sick GPU, and [`read`]
//! leaves the library initialised on purpose.

mod codes;
mod details;
mod facts;
mod fault;
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
    Architecture, CommonAncestor, CpuProtection, Environment, FabricHealth, FabricState, P2p,
    ProtectedLinks, RemoteDevice, Virtualization,
};
pub use facts::{
    Bar1, ConfidentialCapabilities, ConfidentialCompute, ConfidentialState, Details, Fabric, Gpu,
    Link, Mig, Nvml, Pair, Pcie, Unreachable,
};
pub use pairs::Capability;
pub use reading::Reading;

use fault::Fault;
use session::{Closed, Session};

/// What to ask, because every question has its price. Names, UUIDs, addresses and minor numbers (0.01 ms each) always
/// come; opening NVML costs 8 to 10 ms and each GPU 6.6 ms whatever is asked (measured: H200, driver 580).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// The state and the remote end of every NVLink; microseconds each.
    pub links: bool,
    /// The common ancestor (0.15 ms) and the five peer-to-peer statuses (1.65 ms each) of every pair of GPUs.
    pub p2p: bool,
    /// Of the peer-to-peer statuses this one alone, and no ancestor.
    #[serde(default)]
    pub p2p_only: Option<Capability>,
    /// Everything else, [`Details`] and the CUDA version: about 15 ms, and 10 to 15 ms more for the first CPU affinity.
    pub details: bool,
}

/// What came of an attempt to read NVML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// NVML answered; single facts may still be missing.
    Read(Nvml),
    /// There is no such library: no NVIDIA user-space driver is installed, or not in this container.
    Absent {
        /// The dynamic loader's words.
        reason: String,
    },
    /// The library is there and does not work.
    Failed {
        /// NVML's return code, such as 18 (the library and the loaded module are of different versions), 9 (the module is
        /// not loaded) or 4 (no permission); `None` where NVML was never asked or did not return.
        code: Option<u32>,
        /// NVML's name of that code (`NVML_ERROR_LIB_RM_VERSION_MISMATCH`); without a code one of `library_unusable` (the
        /// loader refused the file), `symbol_missing` (it is not NVML) and `panic`.
        name: String,
        /// What happened, in words.
        reason: String,
    },
}

/// Reads NVML once. `library` names another file than the loader's `libnvidia-ml.so.1`.
///
/// Never panics and never shuts NVML down: `nvmlShutdown` takes 3.5 to 7 ms, and the process that called this is about
/// to exit.
pub fn read(query: &Query, library: Option<&Path>) -> Outcome {
    // Nothing of ours is observed after a panic, so nothing can be seen half-changed.
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
        Err(Closed::Unusable { name, reason }) => Outcome::Failed {
            code: None,
            name: name.to_owned(),
            reason,
        },
        Err(Closed::Refused(fault)) => failed(&fault),
    }
}

/// Everything wanted, of every GPU; only a machine whose GPUs cannot even be counted is a failure.
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
        nvml_version: session.nvml_version().into(),
        cuda_driver_version: query.details.then(|| system::cuda_driver_version(session)),
        confidential_compute: system::confidential_compute(session),
        gpus,
        unreachable,
        pairs: query
            .p2p
            .then(|| pairs::read(session, &handles, query.p2p_only)),
    })
}

/// A GPU whose handle or address NVML does not give is unreachable: nothing else about it could be placed.
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
    Outcome::Failed {
        code: fault.code(),
        name: fault.name(),
        reason: fault.to_string(),
    }
}

/// The message of a panic, as far as it is text.
fn words(cause: &(dyn std::any::Any + Send)) -> &str {
    cause
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| cause.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
