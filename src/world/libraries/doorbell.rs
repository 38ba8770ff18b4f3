//! A trial of doorbells: the page of an mlx5 device's doorbell register is registered with a GPU, and given back at once.

use ::verbs::{Error, ProtectionDomain};
use gpu::{BorrowedMemory, Gpu, Registration};

use super::verbs::refusal;
use crate::model::DoorbellTrial;

/// The page of a device's doorbell register, with the queue pair that it is of; or why there is none.
pub type Doorbell = Result<BorrowedMemory, DoorbellTrial>;

/// The doorbell of a device; none where it is no mlx5 device. Which it is libmlx5 alone tells: without it any may be one.
pub fn of(domain: &ProtectionDomain) -> Option<Doorbell> {
    match domain.doorbell() {
        Ok(register) => Some(Ok(register.pages)),
        Err(Error::NotMlx5 { .. }) => None,
        Err(error @ (Error::Library(_) | Error::Missing { .. })) => {
            Some(Err(DoorbellTrial::NoLibrary {
                reason: refusal(&error).reason,
            }))
        }
        Err(error) => Some(Err(DoorbellTrial::Withheld(refusal(&error)))),
    }
}

/// Registers it with a GPU.
pub fn ring(gpu: &Gpu, doorbell: &Doorbell) -> DoorbellTrial {
    let page = match doorbell {
        Ok(page) => page,
        Err(trial) => return trial.clone(),
    };
    match page.for_gpu(gpu, Registration::Registers) {
        Ok(_) => DoorbellTrial::Registered,
        Err(error) => DoorbellTrial::Refused {
            code: error
                .failure()
                .and_then(gpu::Failure::result)
                .map(|result| result.0),
            reason: gpu::sentence(&error),
        },
    }
}
