//! Trial: register an mlx5 device's doorbell page with a GPU.

use ::verbs::{Error, ProtectionDomain};
use gpu::{BorrowedMemory, Gpu, Registration};

use super::verbs::verbs_error;
use crate::model::DoorbellTrial;

/// The doorbell page with its queue pair, or why there is none.
pub type Doorbell = Result<BorrowedMemory, DoorbellTrial>;

/// The device's doorbell; `None` if it is not an mlx5 device. Only libmlx5 knows that, so without it any may be one.
pub fn of(domain: &ProtectionDomain) -> Option<Doorbell> {
    match domain.doorbell() {
        Ok(register) => Some(Ok(register.pages)),
        Err(Error::NotMlx5 { .. }) => None,
        Err(error @ (Error::Library(_) | Error::Missing { .. })) => {
            Some(Err(DoorbellTrial::NoLibrary { reason: verbs_error(&error).reason }))
        }
        Err(error) => Some(Err(DoorbellTrial::Withheld(verbs_error(&error)))),
    }
}

pub fn ring(gpu: &Gpu, doorbell: &Doorbell) -> DoorbellTrial {
    let page = match doorbell {
        Ok(page) => page,
        Err(trial) => return trial.clone(),
    };
    match page.for_gpu(gpu, Registration::Registers) {
        Ok(_) => DoorbellTrial::Registered,
        Err(error) => DoorbellTrial::Refused {
            code: error.failure().and_then(gpu::Failure::result).map(|result| result.0),
            reason: gpu::sentence(&error),
        },
    }
}
