//! Arguments of `gdr probe rdma` about packets, retries and the order of writes.

use clap::{Args, ValueEnum};

/// How packets are addressed and retried. Each is none unless given: the server uses what the client chooses.
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
    pub relaxed_ordering: Option<Ordering>,
}

/// Relaxed ordering of PCI Express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ordering {
    /// Where the NIC and its library support it.
    On,
    /// Strict order.
    Off,
    /// Both ways.
    Both,
}
