//! On-demand paging (ODP): what a device offers for memory whose pages no registration pins.

use ibverbs_sys as raw;

use crate::{Context, Error};

/// What a device offers for memory that is registered with [`Access::on_demand`](crate::Access::on_demand).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDemand {
    /// One registration may stand for the whole address space.
    pub implicit: bool,
    /// Over reliable connections.
    pub rc: OnDemandOperations,
    /// Over unreliable connections.
    pub uc: OnDemandOperations,
    /// With datagrams.
    pub ud: OnDemandOperations,
}

/// The operations of a transport whose memory may be paged on demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OnDemandOperations {
    /// Messages from it.
    pub send: bool,
    /// Messages into it.
    pub receive: bool,
    /// RDMA writes.
    pub write: bool,
    /// RDMA reads.
    pub read: bool,
    /// Atomic operations.
    pub atomic: bool,
    /// Messages into it from a shared receive queue.
    pub shared_receive: bool,
}

impl Context {
    /// What the device offers for on-demand paging; none if it offers none, or if its provider has no extended attributes.
    ///
    /// # Errors
    ///
    /// [`Error::Call`].
    pub fn on_demand_paging(&self) -> Result<Option<OnDemand>, Error> {
        let mut attributes = raw::ibv_device_attr_ex::default();
        // SAFETY: the context is open, and the output is valid.
        let errno = unsafe { raw::ibv_query_device_ex(self.as_raw(), &mut attributes) };
        self.check_errno("ibv_query_device_ex", errno)?;
        Ok(OnDemand::of(&attributes.odp_caps))
    }
}

impl OnDemand {
    fn of(caps: &raw::ibv_odp_caps) -> Option<Self> {
        let has = |bit: u32| caps.general_caps & u64::from(bit) != 0;
        has(raw::IBV_ODP_SUPPORT).then(|| Self {
            implicit: has(raw::IBV_ODP_SUPPORT_IMPLICIT),
            rc: OnDemandOperations::of(caps.rc_odp_caps),
            uc: OnDemandOperations::of(caps.uc_odp_caps),
            ud: OnDemandOperations::of(caps.ud_odp_caps),
        })
    }
}

impl OnDemandOperations {
    fn of(caps: u32) -> Self {
        let has = |bit: u32| caps & bit != 0;
        Self {
            send: has(raw::IBV_ODP_SUPPORT_SEND),
            receive: has(raw::IBV_ODP_SUPPORT_RECV),
            write: has(raw::IBV_ODP_SUPPORT_WRITE),
            read: has(raw::IBV_ODP_SUPPORT_READ),
            atomic: has(raw::IBV_ODP_SUPPORT_ATOMIC),
            shared_receive: has(raw::IBV_ODP_SUPPORT_SRQ_RECV),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_without_general_support_are_none() {
        let caps = |general_caps| raw::ibv_odp_caps {
            general_caps,
            // What mlx5 offers: send, receive, write, read, atomic, and shared receive queues.
            rc_odp_caps: 0x3f,
            uc_odp_caps: 0,
            ud_odp_caps: 0x21,
        };
        assert_eq!(OnDemand::of(&caps(2)), None);
        let found = OnDemand::of(&caps(1)).expect("offered");
        assert!(!found.implicit && found.rc.write && found.rc.atomic && found.rc.shared_receive);
        assert_eq!(found.uc, OnDemandOperations::default());
        assert_eq!(
            found.ud,
            OnDemandOperations {
                send: true,
                shared_receive: true,
                ..OnDemandOperations::default()
            }
        );
        assert!(OnDemand::of(&caps(3)).is_some_and(|found| found.implicit));
    }
}
