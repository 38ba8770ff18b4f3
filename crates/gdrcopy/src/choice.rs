//! Chooses the backend: probes each in order and reports why it works or not.

use std::sync::Arc;

use gpu::DeviceMemory;

use crate::backend::{Backend, dmabuf, gdrdrv, rm, sim};
use crate::error::Kind;
use crate::gdr::{BackendKind, Explanation, Outcome};
use crate::mapping::MapRequest;
use crate::pin::PinFlags;
use crate::{Error, Gdr};

/// Environment variable that names a backend.
const VARIABLE: &str = "GDR_BACKEND";

/// Order of choice. The simulation is only used when named.
const ORDER: [BackendKind; 3] = [BackendKind::Gdrdrv, BackendKind::DmaBuf, BackendKind::Rm];

/// A usable backend, with one sentence about it.
pub(crate) struct Found {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) why: String,
}

pub(crate) fn open() -> Result<Arc<dyn Backend>, Error> {
    if let Some(kind) = named(std::env::var_os(VARIABLE))? {
        return open_with(kind);
    }
    let mut explanations = Vec::new();
    for kind in ORDER {
        match find(kind) {
            Ok(found) => return Ok(found.backend),
            Err(error) => explanations.push(unusable(kind, &error)),
        }
    }
    Err(Error::NoBackend { explanations })
}

pub(crate) fn open_with(kind: BackendKind) -> Result<Arc<dyn Backend>, Error> {
    find(kind).map(|found| found.backend)
}

pub(crate) fn explain() -> Vec<Explanation> {
    explained(named(std::env::var_os(VARIABLE)), |_| None)
}

pub(crate) fn explain_with(memory: &DeviceMemory) -> Vec<Explanation> {
    explained(named(std::env::var_os(VARIABLE)), |found| try_on(found, memory).err())
}

/// Backend named by the variable; `None` if it is unset or empty.
fn named(value: Option<std::ffi::OsString>) -> Result<Option<BackendKind>, Error> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let name = value.to_string_lossy().into_owned();
    BackendKind::named(&name).map(Some).ok_or(Error::BackendName { name })
}

fn find(kind: BackendKind) -> Result<Found, Error> {
    match kind {
        BackendKind::Gdrdrv => gdrdrv::open(),
        BackendKind::DmaBuf => dmabuf::open(),
        BackendKind::Rm => rm::open(),
        BackendKind::Sim => sim::open(),
    }
}

fn explained(
    wanted: Result<Option<BackendKind>, Error>,
    objection: impl Fn(&Found) -> Option<Error>,
) -> Vec<Explanation> {
    let forced = wanted.as_ref().ok().copied().flatten();
    let mut taken = wanted.is_err();
    let mut explanations = Vec::new();
    for kind in ORDER.into_iter().chain([BackendKind::Sim]) {
        let allowed = match forced {
            Some(forced) => forced == kind,
            None => kind != BackendKind::Sim,
        };
        let explanation =
            match find(kind).and_then(|found| objection(&found).map_or(Ok(found), Err)) {
                Ok(found) => {
                    let outcome = if allowed && !taken { Outcome::Chosen } else { Outcome::Usable };
                    Explanation { backend: kind, outcome, why: found.why, denied: false }
                }
                Err(error) => unusable(kind, &error),
            };
        taken |= explanation.outcome == Outcome::Chosen;
        explanations.push(explanation);
    }
    explanations
}

fn try_on(found: &Found, memory: &DeviceMemory) -> Result<(), Error> {
    let gdr = Gdr::over(Arc::clone(&found.backend));
    let pin = gdr.pin(memory, 0..memory.len(), PinFlags::default())?;
    pin.map(MapRequest::Default).map(drop)
}

fn unusable(backend: BackendKind, error: &Error) -> Explanation {
    let why = match error {
        Error::Refused { why, .. } => why.clone(),
        other => gpu::sentence(other),
    };
    Explanation { backend, outcome: Outcome::Refused, why, denied: error.kind() == Kind::Denied }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_backend_variable() {
        assert_eq!(named(None).unwrap(), None);
        assert_eq!(named(Some("".into())).unwrap(), None);
        assert_eq!(named(Some("rm".into())).unwrap(), Some(BackendKind::Rm));
        assert_eq!(named(Some("dmabuf".into())).unwrap(), Some(BackendKind::DmaBuf));
        let error = named(Some("RM".into())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid GDR_BACKEND: \"RM\"; must be gdrdrv, dmabuf, rm or sim"
        );
        assert_eq!(error.errno(), libc::EINVAL);
    }

    #[test]
    fn simulation_must_be_named() {
        let outcome = |wanted| {
            let explanations = explained(Ok(wanted), |_| None);
            assert_eq!(explanations.len(), 4);
            explanations[3].outcome
        };
        assert_eq!(outcome(None), Outcome::Usable);
        assert_eq!(outcome(Some(BackendKind::Sim)), Outcome::Chosen);
    }
}
