//! Ports.

use ibverbs_sys::{
    IBV_LINK_LAYER_ETHERNET, IBV_LINK_LAYER_INFINIBAND, ibv_mtu, ibv_port_attr,
    ibv_port_state as state,
};

/// A port of an open device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// Its state.
    pub state: PortState,
    /// What its link is.
    pub link_layer: LinkLayer,
    /// The payload of a packet in bytes; none for a value that is not known. It means nothing while the port is not active.
    pub active_mtu: Option<u32>,
    /// The largest payload that the port can have.
    pub largest_mtu: Option<u32>,
    /// The size of its GID table.
    pub gids: u32,
    /// Its local identifier; 0 on Ethernet.
    pub lid: u16,
}

/// The state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortState {
    /// No link, or switched off.
    Down,
    /// A link, and no subnet manager has spoken yet.
    Initializing,
    /// Nearly up.
    Armed,
    /// Up.
    Active,
    /// Another value.
    Other(u32),
}

/// What a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkLayer {
    /// InfiniBand; also what a device without the field has.
    InfiniBand,
    /// Ethernet.
    Ethernet,
    /// Another value.
    Other(u8),
}

impl Port {
    pub(crate) fn of(number: u8, raw: &ibv_port_attr) -> Self {
        Self {
            number,
            state: match raw.state {
                state::IBV_PORT_DOWN => PortState::Down,
                state::IBV_PORT_INIT => PortState::Initializing,
                state::IBV_PORT_ARMED => PortState::Armed,
                state::IBV_PORT_ACTIVE => PortState::Active,
                other => PortState::Other(other),
            },
            link_layer: match u32::from(raw.link_layer) {
                // Before the field was, every link was InfiniBand.
                0 | IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
                IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                _ => LinkLayer::Other(raw.link_layer),
            },
            active_mtu: bytes(raw.active_mtu),
            largest_mtu: bytes(raw.max_mtu),
            gids: u32::try_from(raw.gid_tbl_len).unwrap_or(0),
            lid: raw.lid,
        }
    }
}

/// 1 is 256 bytes, 5 is 4096.
fn bytes(mtu: ibv_mtu) -> Option<u32> {
    (1..=5).contains(&mtu).then(|| 128 << mtu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_payload_is_in_bytes() {
        let sizes: Vec<_> = (0..7).map(bytes).collect();
        assert_eq!(
            sizes,
            [
                None,
                Some(256),
                Some(512),
                Some(1024),
                Some(2048),
                Some(4096),
                None
            ]
        );
    }

    #[test]
    fn values_that_are_not_known_stay_as_they_are() {
        let raw = ibv_port_attr {
            state: 9,
            link_layer: 7,
            gid_tbl_len: -1,
            ..ibv_port_attr::default()
        };
        let port = Port::of(1, &raw);
        assert_eq!(
            (port.state, port.link_layer, port.gids),
            (PortState::Other(9), LinkLayer::Other(7), 0)
        );
    }
}
