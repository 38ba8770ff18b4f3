//! Tests whether the GPU may access the NIC's doorbell register. Runs first, because later parts would fail with less clear errors.

use gpu::Registration;
use verbs::Context;

use super::session::Session;
use crate::model::figure::asynchronous::REGISTER;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::hca::HcaChoice;

/// Registers the doorbell's page with CUDA, and unregisters it. False if that fails. Only mlx5 needs it.
pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<bool, StepError> {
    let Some(HcaChoice::Mlx5(port)) = &session.task.hca else {
        return Ok(true);
    };
    let about = session.about_queues();
    reporter.doing("a queue pair, and its doorbell")?;
    let page = Context::open(&port.device)
        .and_then(|context| context.domain())
        .and_then(|domain| domain.doorbell());
    let page = match page {
        Ok(register) => register.pages,
        Err(error) => {
            let why = format!(
                "cannot get a doorbell register of {}: {}",
                port.device,
                gpu::sentence(&error)
            );
            reporter.result(about.impossible(
                REGISTER,
                None,
                true,
                format!("{why}; {}", fix_verbs(&error)),
            ))?;
            return Ok(false);
        }
    };
    reporter.doing("CUDA to register the doorbell")?;
    match page.for_gpu(&session.gpu, Registration::Registers) {
        Ok(_) => {
            reporter.result(about.right(REGISTER, Some(page.len()), 0))?;
            Ok(true)
        }
        Err(error) => {
            let code = error.failure().and_then(gpu::Failure::result).map(|result| result.0);
            let why = format!(
                "CUDA cannot register the doorbell register of {}: {}; {}",
                port.device,
                gpu::sentence(&error),
                fix_cuda(code)
            );
            reporter.result(about.impossible(REGISTER, Some(page.len()), true, why))?;
            Ok(false)
        }
    }
}

/// The next step after an error of verbs.
fn fix_verbs(error: &verbs::Error) -> &'static str {
    match error {
        verbs::Error::NotMlx5 { .. } => {
            "use an mlx5 NIC (--device), or --hca proxy, which works with any NIC"
        }
        verbs::Error::Library(_) | verbs::Error::Missing { .. } => {
            "install rdma-core's library for mlx5 (package ibverbs-providers), or use --hca proxy"
        }
        verbs::Error::Open { .. } | verbs::Error::NoDevice { .. } => {
            "see gdr doctor --only rdma.device,rdma.provider"
        }
        _ => "see gdr doctor --only limits.memlock,rdma.core and dmesg, or use --hca proxy",
    }
}

/// The next step after an error of CUDA (`CUresult`, cuda.h).
fn fix_cuda(code: Option<u32>) -> &'static str {
    match code {
        Some(800) => {
            "peer mappings need CAP_SYS_ADMIN: 'gdr fix peer-mapping' (PeerMappingOverride=1), or use --hca proxy"
        }
        Some(304) => {
            "the driver cannot follow the mapping in this kernel: install a driver for it, or use --hca proxy"
        }
        Some(801) => "the driver maps no device's registers on this platform: use --hca proxy",
        _ => "see gdr doctor --live --only rdma.uar-map and dmesg, or use --hca proxy",
    }
}
