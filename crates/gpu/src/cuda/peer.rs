//! Peer access between primary contexts.

use gdr_sys::cuda::CuResult;

use super::driver::call;
use super::gpu::{CudaGpu, raw_context};
use crate::backend::{Backend as _, Peer};
use crate::{Error, Failure};

impl CudaGpu {
    /// True if CUDA supports access.
    pub(super) fn reaches(&self, other: Peer) -> Result<bool, Error> {
        if other.simulated {
            return Ok(false);
        }
        let driver = self.driver;
        driver
            .device(other.ordinal)
            .and_then(|other| driver.can_access_peer(self.raw, other))
            .map_err(self.peer_error(other))
    }

    /// Enables access; true if it was disabled. The context is current.
    pub(super) fn reach(&self, other: Peer) -> Result<bool, Error> {
        let answer = if other.simulated {
            Err(Failure::Returned {
                function: "cuCtxEnablePeerAccess",
                result: CuResult::PEER_ACCESS_UNSUPPORTED,
            })
        } else {
            // The flags are reserved.
            call!(self.driver, cuCtxEnablePeerAccess(raw_context(other.context), 0))
        };
        match answer {
            Ok(()) => Ok(true),
            Err(Failure::Returned { result: CuResult::PEER_ACCESS_ALREADY_ENABLED, .. }) => {
                Ok(false)
            }
            Err(failure) => Err(self.peer_error(other)(failure)),
        }
    }

    fn peer_error(&self, other: Peer) -> impl Fn(Failure) -> Error {
        let (from, to) = (self.device().ordinal, other.ordinal);
        move |source| Error::Peer { from, to, source }
    }
}
