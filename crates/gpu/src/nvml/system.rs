//! Properties of the machine.

use super::facts::ConfidentialCompute;
use super::fault::LIBRARY_NOT_FOUND;
use super::reading::Reading;
use super::session::Session;

/// v2 queries libcuda and fails without it; v1, for old libraries, then returns a made-up version.
pub(super) fn cuda_driver_version(session: &Session) -> Reading<i32> {
    match session.cuda_driver_version_v2() {
        Err(fault) if fault.code() == Some(LIBRARY_NOT_FOUND) => Reading::NotCovered,
        Err(fault) if fault.code().is_none() => session.cuda_driver_version_v1().into(),
        other => other.into(),
    }
}

/// 0.05 ms, so it is always read.
pub(super) fn confidential_compute(session: &Session) -> ConfidentialCompute {
    ConfidentialCompute {
        enabled: session.confidential_state().map(|state| state.ccFeature != 0).into(),
        links: Reading::of_newer_argument(
            session.confidential_settings().map(|settings| settings.multiGpuMode.into()),
        ),
    }
}
