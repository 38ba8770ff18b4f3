//! Ports of a device.

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
    /// Its link layer.
    pub link_layer: LinkLayer,
    /// The active MTU in bytes; none for an unknown value. Undefined unless the port is active.
    pub active_mtu: Option<u32>,
    /// The maximum MTU in bytes.
    pub largest_mtu: Option<u32>,
    /// Entries of its GID table.
    pub gids: u32,
    /// Its LID; 0 on Ethernet.
    pub lid: u16,
    /// The longest message in bytes.
    pub longest_message: u32,
}

/// The state of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortState {
    /// No link, or disabled.
    Down,
    /// A link without a subnet manager's configuration.
    Initializing,
    /// Configured, not yet active.
    Armed,
    /// Active.
    Active,
    /// Another value.
    Other(u32),
}

/// The link layer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkLayer {
    /// InfiniBand; also reported by devices without the field.
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
                // Before the field existed, every link was InfiniBand.
                0 | IBV_LINK_LAYER_INFINIBAND => LinkLayer::InfiniBand,
                IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                _ => LinkLayer::Other(raw.link_layer),
            },
            active_mtu: bytes(raw.active_mtu),
            largest_mtu: bytes(raw.max_mtu),
            gids: u32::try_from(raw.gid_tbl_len).unwrap_or(0),
            lid: raw.lid,
            longest_message: raw.max_msg_sz,
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
    fn mtu_in_bytes() {
        let sizes: Vec<_> = (0..7).map(bytes).collect();
        assert_eq!(sizes, [None, Some(256), Some(512), Some(1024), Some(2048), Some(4096), None]);
    }

    #[test]
    fn keeps_unknown_values() {
        let raw =
            ibv_port_attr { state: 9, link_layer: 7, gid_tbl_len: -1, ..ibv_port_attr::default() };
        let port = Port::of(1, &raw);
        assert_eq!(
            (port.state, port.link_layer, port.gids),
            (PortState::Other(9), LinkLayer::Other(7), 0)
        );
    }
}
