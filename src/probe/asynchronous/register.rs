//! Whether the GPU may ring the NIC's doorbell at all: the register's page is registered with it, and given back. What follows
//! would fail of it in other words, so it is told first, by the step and with its cure.

use gpu::Registration;
use verbs::Context;

use super::session::Session;
use super::task::HcaChoice;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// What it is told of.
pub const LABEL: &str = "async.register";

/// Tries it; false where the NIC cannot be driven by the GPU. Another NIC than mlx5 needs no such thing.
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
                "{} gives no doorbell register: {}",
                port.device,
                gpu::sentence(&error)
            );
            reporter.result(about.impossible(
                LABEL,
                None,
                true,
                format!("{why}; {}", without(&error)),
            ))?;
            return Ok(false);
        }
    };
    reporter.doing("CUDA to register the doorbell")?;
    match page.for_gpu(&session.gpu, Registration::Registers) {
        Ok(_) => {
            reporter.result(about.right(LABEL, Some(page.len()), 0))?;
            Ok(true)
        }
        Err(error) => {
            let code = error
                .failure()
                .and_then(gpu::Failure::result)
                .map(|result| result.0);
            let why = format!(
                "the GPU is not given the doorbell register of {}: {}; {}",
                port.device,
                gpu::sentence(&error),
                refused(code)
            );
            reporter.result(about.impossible(LABEL, Some(page.len()), true, why))?;
            Ok(false)
        }
    }
}

/// What to do where there is no register.
fn without(error: &verbs::Error) -> &'static str {
    match error {
        verbs::Error::NotMlx5 { .. } => {
            "take an mlx5 NIC (--device), or --hca proxy, which drives any"
        }
        verbs::Error::Library(_) | verbs::Error::Missing { .. } => {
            "install rdma-core's library for mlx5 (package ibverbs-providers), or take --hca proxy"
        }
        verbs::Error::Open { .. } | verbs::Error::NoDevice { .. } => {
            "see gdr doctor --only rdma.device,rdma.provider"
        }
        _ => "see gdr doctor --only limits.memlock,rdma.core and dmesg, or take --hca proxy",
    }
}

/// What to do where CUDA refuses (`CUresult`, cuda.h).
fn refused(code: Option<u32>) -> &'static str {
    match code {
        Some(800) => {
            "peer mappings are for CAP_SYS_ADMIN alone: 'gdr fix peer-mapping' (PeerMappingOverride=1), or take --hca proxy"
        }
        Some(304) => {
            "the driver could not follow the mapping in this kernel: install one that is made for it, or take --hca proxy"
        }
        Some(801) => "the driver maps no device's registers on this platform: take --hca proxy",
        _ => "see gdr doctor --live --only rdma.uar-map and dmesg, or take --hca proxy",
    }
}
