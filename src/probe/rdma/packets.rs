//! The command line of `gdr probe rdma` about packets, retries and the order of writes.

use clap::Args;
use verbs::STATIC_RATES;

use super::settings::{MTUS, RelaxedOrdering, Settings, flow_label_of};
use crate::probe::arguments::UsageError;

/// How packets are addressed and retried. An option that is left out has no value: the server uses what the client chooses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Packets (the client chooses for both ends)")]
pub struct Packets {
    /// Traffic class; its upper six bits are the DSCP, as in 106 for DSCP 26 [default: 0, like NCCL]
    #[arg(long, value_name = "CLASS")]
    pub traffic_class: Option<u8>,

    /// Service level, 0 to 15; on RoCE its lower three bits are the priority [default: 0]
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=15))]
    pub service_level: Option<u8>,

    /// Hop limit (TTL) of routed packets [default: 64]
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    pub hop_limit: Option<u8>,

    /// Flow label, 1 to 1048575; with RoCE v2 it decides the UDP source port [default: the driver chooses]
    #[arg(long, value_name = "LABEL", value_parser = clap::value_parser!(u32).range(1..=0xf_ffff), conflicts_with = "source_port")]
    pub flow_label: Option<u32>,

    /// UDP source port of RoCE v2, 49152 to 65535, by which switches spread flows [default: the driver chooses]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(0xc000..))]
    pub source_port: Option<u16>,

    /// Largest payload of a packet: 256, 512, 1024, 2048 or 4096 bytes [default: what both ports allow]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,

    /// Retransmission timeout, 4.096 us times two to the power of this; 0 waits forever [default: 20, four seconds]
    #[arg(long, value_name = "EXPONENT", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub ack_timeout: Option<u8>,

    /// Retransmissions before a request fails, 0 to 7 [default: 7]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub retries: Option<u8>,

    /// Retries after the receiver was not ready, 0 to 7; 7 is unlimited [default: 7]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub rnr_retries: Option<u8>,

    /// Wait after the receiver was not ready, in the numbers of the InfiniBand specification [default: 12, 0.64 ms]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..=31))]
    pub rnr_timer: Option<u8>,

    /// Limit of the rate in Gb/s, one of InfiniBand's static rates, such as 25 or 100 [default: that of the port]
    #[arg(long, value_name = "GBPS")]
    pub static_rate: Option<f64>,

    /// Let the NICs relax the order of their writes where bandwidth is measured [default: on]
    ///
    /// Never where memory is polled for arriving data. With 'both' each bandwidth is measured twice, and the
    /// difference is shown.
    #[arg(long, value_name = "HOW", value_enum)]
    pub relaxed_ordering: Option<RelaxedOrdering>,
}

impl Packets {
    /// How packets are addressed and retried.
    pub fn settings(&self) -> Result<Settings, UsageError> {
        let default = Settings::default();
        let mtu = self.mtu;
        if let Some(mtu) = mtu.filter(|mtu| !MTUS.contains(mtu)) {
            let known = MTUS.map(|mtu| mtu.to_string()).join(", ");
            return Err(format!(
                "--mtu {mtu} is not the payload of an InfiniBand packet: use one of {known}"
            )
            .into());
        }
        Ok(Settings {
            traffic_class: self.traffic_class.unwrap_or(default.traffic_class),
            service_level: self.service_level.unwrap_or(default.service_level),
            hop_limit: self.hop_limit.unwrap_or(default.hop_limit),
            flow_label: match (self.flow_label, self.source_port) {
                (Some(label), _) => label,
                (None, Some(port)) => flow_label_of(port),
                (None, None) => default.flow_label,
            },
            static_rate: match self.static_rate {
                Some(rate) => static_rate(rate)?,
                None => default.static_rate,
            },
            mtu,
            timeout: self.ack_timeout.unwrap_or(default.timeout),
            retries: self.retries.unwrap_or(default.retries),
            receiver_retries: self.rnr_retries.unwrap_or(default.receiver_retries),
            receiver_timer: self.rnr_timer.unwrap_or(default.receiver_timer),
        })
    }

    /// True if any was given.
    pub fn is_any(&self) -> bool {
        let Packets {
            traffic_class,
            service_level,
            hop_limit,
            flow_label,
            source_port,
            mtu,
            ack_timeout,
            retries,
            rnr_retries,
            rnr_timer,
            static_rate,
            relaxed_ordering,
        } = self;
        let bytes =
            [traffic_class, service_level, hop_limit, ack_timeout, retries, rnr_retries, rnr_timer];
        bytes.iter().any(|given| given.is_some())
            || flow_label.is_some()
            || source_port.is_some()
            || mtu.is_some()
            || static_rate.is_some()
            || relaxed_ordering.is_some()
    }
}

fn static_rate(rate: f64) -> Result<u8, UsageError> {
    let found = STATIC_RATES.iter().find(|(known, _)| *known == rate);
    found.map(|(_, number)| *number).ok_or_else(|| {
        let known = STATIC_RATES.map(|(rate, _)| rate.to_string()).join(", ");
        format!("--static-rate {rate} is not a rate of InfiniBand: use one of {known}").into()
    })
}
