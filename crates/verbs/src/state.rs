//! The state of a queue pair, from a query of the device.

use ibverbs_sys::{self as raw, ibv_qp_attr_mask as mask, ibv_qp_state as state};

use crate::Error;
use crate::queue_pair::QueuePair;

/// The requests that a queue pair accepts in its current state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePairState {
    /// None: state RESET.
    Reset,
    /// Receive requests: state INIT or RTR.
    Receives,
    /// All requests: state RTS, SQD or SQE.
    Sends,
    /// All requests, to flush them: state ERR.
    Error,
}

impl<S, D> QueuePair<S, D> {
    /// Queries its current state. On some devices this is a command to the firmware.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn state(&self) -> Result<QueuePairState, Error> {
        let (mut attributes, mut made) =
            (raw::ibv_qp_attr::default(), raw::ibv_qp_init_attr::default());
        let what = mask::IBV_QP_STATE.0.cast_signed();
        // SAFETY: the pair is alive, and both outputs are valid.
        let errno = unsafe { raw::ibv_query_qp(self.as_raw(), &mut attributes, what, &mut made) };
        self.domain().context().check_errno("ibv_query_qp", errno)?;
        Ok(match attributes.qp_state {
            state::IBV_QPS_RESET => QueuePairState::Reset,
            state::IBV_QPS_INIT | state::IBV_QPS_RTR => QueuePairState::Receives,
            state::IBV_QPS_ERR => QueuePairState::Error,
            _ => QueuePairState::Sends,
        })
    }
}
