//! Random destinations of datagrams, and the provider's address handles for them.

use ibverbs_sys as ib;

use crate::provider::Device;
use crate::random::Random;

/// A destination and the provider's address handle.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    pub handle: *mut ib::ibv_ah,
    pub link: Link,
    /// As in `ibv_ah_attr`: three bits on Ethernet, four on InfiniBand.
    pub service_level: u8,
    /// Code of the static rate in an address vector.
    pub rate: u8,
    pub route: Option<Route>,
}

/// Link-layer address of the next hop.
#[derive(Debug, Clone, Copy)]
pub enum Link {
    /// Destination LID and the low bits of the source LID.
    InfiniBand { lid: u16, path: u8 },
    /// Destination MAC address and UDP source port: 0 for RoCE v1.
    Ethernet { mac: [u8; 6], port: u16 },
}

/// A global route header.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub gid: [u8; 16],
    pub flow_label: u32,
    pub source: u8,
    pub hops: u8,
    pub class: u8,
}

/// `enum ibv_rate` and its code, from `ib_to_mlx5_rate_table` in rdma-core's `providers/mlx5/verbs.c`.
const RATES: [(u8, u8); 7] = [(0, 0), (2, 7), (5, 10), (3, 8), (16, 15), (17, 0), (99, 0)];

/// Addresses of every kind: InfiniBand with and without a route, RoCE v1 and v2.
pub fn addresses(device: &Device, random: &mut Random, count: usize) -> Vec<Address> {
    (0..count).map(|number| address(device, random, number % 4)).collect()
}

fn address(device: &Device, random: &mut Random, kind: usize) -> Address {
    let (static_rate, rate) = RATES[random.below(RATES.len())];
    let infiniband = kind < 2;
    let source = match kind {
        // GID 0 of the Ethernet port is of RoCE v1, GID 1 of RoCE v2.
        2 => 0,
        3 => 1,
        _ => random.byte(),
    };
    let mut gid = [0; 16];
    gid.fill_with(|| random.byte());
    let route = Route {
        gid,
        // Not 0: without a label the provider chooses a random UDP port.
        flow_label: random.word() >> 12 | 1,
        source,
        hops: random.byte(),
        class: random.byte(),
    };
    let lid = random.word() as u16;
    let path = random.byte() & 0x7f;
    let level = random.byte() & 0xf;
    let mut attributes = ib::ibv_ah_attr {
        grh: ib::ibv_global_route {
            dgid: ib::ibv_gid { raw: gid },
            flow_label: route.flow_label,
            sgid_index: source,
            hop_limit: route.hops,
            traffic_class: route.class,
        },
        dlid: lid,
        sl: level,
        src_path_bits: path,
        static_rate,
        is_global: u8::from(kind != 0),
        port_num: if infiniband { 1 } else { 2 },
    };
    let link = if infiniband {
        Link::InfiniBand { lid, path }
    } else {
        // The MAC is that of the fake kernel. The port follows `ibv_flow_label_to_udp_sport` (RoCE v2 annex): the label's
        // upper 6 bits folded into its lower 14, plus 0xc000.
        let mac = std::array::from_fn(|at| !gid[10 + at]);
        let folded = (route.flow_label & 0x3fff) ^ (route.flow_label >> 14);
        let port = if kind == 3 { 0xc000 | folded as u16 } else { 0 };
        Link::Ethernet { mac, port }
    };
    Address {
        handle: device.address(&mut attributes),
        link,
        service_level: level,
        rate,
        route: (kind != 0).then_some(route),
    }
}
