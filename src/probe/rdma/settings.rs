//! How both ends address packets and retry them. The client chooses, and both ends use the same.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use verbs::{Behaviour, Route, STATIC_RATES};

use crate::model::PacketSettings;

/// The lowest UDP source port of RoCE v2.
pub const FIRST_SOURCE_PORT: u16 = 0xc000;
/// Bits of a UDP source port that a flow label decides.
const PORT_BITS: u16 = 0x3fff;
/// Payloads of a packet.
pub const MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// Whether a NIC may relax the order of its writes where bandwidth is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum RelaxedOrdering {
    /// Where the NIC and its library support it.
    On,
    /// Strict order.
    Off,
    /// Both ways.
    // Each bandwidth is measured twice.
    Both,
}

/// The fields of headers, and the limits of retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Traffic class of the GRH; its upper six bits are the DSCP.
    pub traffic_class: u8,
    /// Service level, at most 15.
    pub service_level: u8,
    pub hop_limit: u8,
    /// Flow label of the GRH, 20 bits; 0 lets the driver choose the UDP source port.
    pub flow_label: u32,
    /// Limit of the rate, a number of `enum ibv_rate`; 0 is the port's.
    pub static_rate: u8,
    /// Largest payload of a packet; none for what both ports allow.
    pub mtu: Option<u32>,
    /// Retransmission timeout: 4.096 us times two to the power of this, at most 31.
    pub timeout: u8,
    /// Retransmissions, at most 7.
    pub retries: u8,
    /// Retries after receiver-not-ready; 7 is unlimited.
    pub receiver_retries: u8,
    /// Wait after receiver-not-ready, in the numbers of the InfiniBand specification, at most 31.
    pub receiver_timer: u8,
}

impl Default for Settings {
    fn default() -> Self {
        let default = PacketSettings::DEFAULT;
        Self {
            traffic_class: default.traffic_class,
            service_level: default.service_level,
            hop_limit: default.hop_limit,
            flow_label: default.flow_label,
            static_rate: 0,
            mtu: default.mtu,
            timeout: default.timeout,
            retries: default.retries,
            receiver_retries: default.rnr_retries,
            receiver_timer: default.rnr_timer,
        }
    }
}

impl Settings {
    /// False for values that no packet or queue pair can have.
    pub fn is_valid(&self) -> bool {
        self.service_level <= 15
            && self.flow_label <= 0xf_ffff
            && (self.static_rate == 0
                || STATIC_RATES.iter().any(|(_, rate)| *rate == self.static_rate))
            && self.mtu.is_none_or(|mtu| MTUS.contains(&mtu))
            && self.timeout <= 31
            && self.retries <= 7
            && self.receiver_retries <= 7
            && self.receiver_timer <= 31
    }

    /// The payload of a packet between two ports of these MTUs.
    pub fn mtu(&self, ours: u32, theirs: u32) -> u32 {
        ours.min(theirs).min(self.mtu.unwrap_or(u32::MAX))
    }

    /// In a report.
    pub fn reported(&self) -> PacketSettings {
        let rate = STATIC_RATES.iter().find(|(_, number)| *number == self.static_rate);
        PacketSettings {
            traffic_class: self.traffic_class,
            service_level: self.service_level,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            static_rate: rate.map(|(rate, _)| *rate),
            mtu: self.mtu,
            timeout: self.timeout,
            retries: self.retries,
            rnr_retries: self.receiver_retries,
            rnr_timer: self.receiver_timer,
        }
    }

    pub fn route(&self, port: u8, gid_index: u8) -> Route {
        Route {
            hop_limit: self.hop_limit,
            traffic_class: self.traffic_class,
            service_level: self.service_level,
            flow_label: self.flow_label,
            static_rate: self.static_rate,
            ..Route::of(port, gid_index)
        }
    }

    /// `reads` is the number of outstanding reads.
    pub fn behaviour(&self, mtu: u32, reads: u8) -> Behaviour {
        Behaviour {
            timeout: self.timeout,
            retries: self.retries,
            receiver_retries: self.receiver_retries,
            receiver_timer: self.receiver_timer,
            reads,
            ..Behaviour::of(mtu)
        }
    }
}

/// The flow label whose packets have this UDP source port. The kernel combines the upper six bits of the label with the lower fourteen
/// (`rdma_flow_label_to_udp_sport`); a label of 0 means that the driver chooses.
pub fn flow_label_of(source_port: u16) -> u32 {
    match u32::from(source_port & PORT_BITS) {
        0 => 1 << 14 | 1,
        label => label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux computes it (include/rdma/ib_verbs.h, v6.12).
    fn source_port(flow_label: u32) -> u16 {
        let low = (flow_label & 0x3fff) ^ ((flow_label & 0xf_c000) >> 14);
        low as u16 | 0xc000
    }

    #[test]
    fn flow_label_of_every_source_port() {
        for port in FIRST_SOURCE_PORT..=u16::MAX {
            let label = flow_label_of(port);
            assert!(label > 0 && label < 1 << 20, "{port}");
            assert_eq!(source_port(label), port);
        }
    }

    #[test]
    fn invalid_values() {
        let default = Settings::default();
        assert!(default.is_valid());
        for settings in [
            Settings { service_level: 16, ..default },
            Settings { flow_label: 1 << 20, ..default },
            Settings { static_rate: 1, ..default },
            Settings { static_rate: 99, ..default },
            Settings { mtu: Some(1000), ..default },
            Settings { timeout: 32, ..default },
            Settings { retries: 8, ..default },
            Settings { receiver_retries: 8, ..default },
            Settings { receiver_timer: 32, ..default },
        ] {
            assert!(!settings.is_valid(), "{settings:?}");
        }
        let small = Settings { mtu: Some(512), ..default };
        assert_eq!((small.mtu(4096, 1024), default.mtu(4096, 1024)), (512, 1024));
    }
}
