//! libibverbs through crate `verbs`. Opens no device without trials.

use std::collections::BTreeMap;
use std::path::Path;

use ::verbs::{Context, Dmabuf, Error, Library, device_names};

use super::VerbsQuery;
use crate::model::{
    Bdf, DmabufAnswer, Fact, Verbs, VerbsDevice, VerbsError, VerbsOutcome, VerbsPort, VerbsTrial,
    Why,
};

pub fn read(query: VerbsQuery) -> VerbsOutcome {
    let read = || -> Result<Verbs, Error> {
        let library = Library::open()?;
        let devices = device_names()?;
        Ok(Verbs {
            library: Some(library.path().display().to_string()),
            reg_dmabuf_mr: Fact::Known(library.knows_dmabuf()),
            trials: query.trials.then(|| trials(&devices)),
            devices,
        })
    };
    match read() {
        Ok(verbs) => VerbsOutcome::Read(Box::new(verbs)),
        Err(error) if error.is_absent() => VerbsOutcome::Absent { reason: error.to_string() },
        Err(error) => {
            let VerbsError { code, reason } = verbs_error(&error);
            VerbsOutcome::Failed { code, reason }
        }
    }
}

/// Reduces an answer to what was queried.
pub fn reduce(mut outcome: VerbsOutcome, query: VerbsQuery) -> VerbsOutcome {
    if let VerbsOutcome::Read(verbs) = &mut outcome
        && !query.trials
    {
        verbs.trials = None;
    }
    outcome
}

fn trials(devices: &[String]) -> BTreeMap<String, VerbsTrial> {
    let trial = |name: &String| match Context::open(name) {
        Ok(context) => VerbsTrial::Opened(device(&context)),
        Err(error) => VerbsTrial::Refused(verbs_error(&error)),
    };
    devices.iter().map(|name| (name.clone(), trial(name))).collect()
}

fn device(context: &Context) -> VerbsDevice {
    let limits = context.limits();
    let ports = limits.as_ref().map_or(0, |limits| limits.ports);
    VerbsDevice {
        dmabuf: match context.dmabuf() {
            Ok(Dmabuf::Registers(errno)) => DmabufAnswer::Registers(errno),
            Ok(Dmabuf::Refuses(errno)) => DmabufAnswer::Refuses(errno),
            Err(Error::Missing { .. }) => DmabufAnswer::NotAsked,
            Err(error) => DmabufAnswer::Failed(verbs_error(&error)),
        },
        data_direct: match context.data_direct() {
            Ok(path) => Fact::Known(path.as_deref().and_then(function)),
            Err(Error::Missing { .. }) => Fact::Unknown(Why::NotCovered),
            Err(_) => Fact::Unknown(Why::Broken),
        },
        ports: (1..=ports)
            .filter_map(|number| context.port(number).ok())
            .map(|port| VerbsPort {
                number: port.number,
                active_mtu: port.active_mtu,
                largest_mtu: port.largest_mtu,
            })
            .collect(),
    }
}

/// The PCI function of a sysfs path.
fn function(path: &Path) -> Option<Bdf> {
    path.file_name()?.to_str()?.parse().ok()
}

/// The error with its cause.
pub fn verbs_error(error: &Error) -> VerbsError {
    VerbsError { code: error.errno(), reason: gpu::sentence(error) }
}
