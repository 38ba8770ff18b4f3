//! Datagrams, which carry their address. A datagram without a receiver is lost, unnoticed by its sender.

use crate::device::{ETHERNET, MTU};
use crate::nic::arrival::{Message, Origin};
use crate::nic::completion::kind;
use crate::nic::memory::{self, Segment};
use crate::nic::objects::Objects;
use crate::nic::pair::{DATAGRAMS, QueuePair};
use crate::nic::peers;
use crate::nic::perform::Outcome;
use crate::nic::ports;
use crate::nic::syndrome;
use crate::nic::wqe::Control;
use crate::switches::switches;

/// Space before the message in a receive for the GRH (`struct ibv_grh`), filled if there is one.
const ROUTE_BYTES: usize = 40;

/// The address of a datagram: `struct mlx5_wqe_av` of `mlx5dv.h`, big-endian.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    key: u32,
    number: u32,
    level: u8,
    lid: u16,
    mac: [u8; 6],
    class: u8,
    hops: u8,
    /// InfiniBand: whether there is a GRH.
    has_route: bool,
    own_gid_index: u8,
    flow_label: u32,
    gid: [u8; 16],
}

impl Address {
    pub const BYTES: usize = 48;

    /// None without `MLX5_EXTENDED_UD_AV`, which marks the part after the first 16 bytes as present.
    pub fn read(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        const EXTENDED: u32 = 1 << 31;
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (number, route) = (word(8), word(28));
        let mut mac = [0; 6];
        mac.copy_from_slice(&bytes[20..26]);
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[32..48]);
        (number & EXTENDED != 0).then_some(Self {
            key: word(0),
            number: number & 0xff_ffff,
            level: bytes[12] & 0xf,
            lid: u16::from_be_bytes([bytes[14], bytes[15]]),
            mac,
            class: bytes[26],
            hops: bytes[27],
            has_route: route & 1 << 30 != 0,
            own_gid_index: (route >> 20) as u8,
            flow_label: route & 0xf_ffff,
            gid,
        })
    }

    /// True if it leads to the port itself. Its MAC address must be the one that `CREATE_AH` returned for the GID.
    fn is_own(&self, port: u8) -> bool {
        match port {
            ETHERNET => ports::has_gid(port, &self.gid) && self.mac == ports::mac(&self.gid),
            _ => {
                ports::has_lid(port, self.lid)
                    && (!self.has_route || ports::has_gid(port, &self.gid))
            }
        }
    }

    /// The GRH of a message of `bytes` bytes (InfiniBand specification, 8.3): version 6, traffic class and flow label, payload length up
    /// to the ICRC, next header, hop limit, source and destination GID. RoCE v2 would have an IP header; this NIC writes a GRH for both.
    fn header(&self, port: u8, bytes: usize) -> [u8; ROUTE_BYTES] {
        /// BTH, DETH and ICRC.
        const AROUND: usize = 12 + 8 + 4;
        let mut header = [0; ROUTE_BYTES];
        let first = 6 << 28 | u32::from(self.class) << 20 | self.flow_label;
        let length = u16::try_from(bytes.next_multiple_of(4) + AROUND).unwrap_or(u16::MAX);
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[4..6].copy_from_slice(&length.to_be_bytes());
        header[6..8].copy_from_slice(&[0x1b, self.hops]);
        header[8..24].copy_from_slice(&ports::gid_at(port, self.own_gid_index).unwrap_or_default());
        header[24..].copy_from_slice(&self.gid);
        header
    }
}

impl Objects {
    /// Sends a datagram, which always succeeds for its sender.
    pub fn datagram(
        &mut self,
        handle: u32,
        control: &Control,
        to: &Address,
        local: &[Segment],
    ) -> Outcome {
        let Some(own) = self.pairs.get(&handle) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        let (number, port) = (own.number, own.now.port);
        // A Q_Key with the highest bit set stands for the sender's own (specification, 10.2.5).
        let key = if to.key >> 31 != 0 { own.now.qkey } else { to.key };
        let bytes: usize = local.iter().map(|segment| segment.bytes).sum();
        if bytes > MTU {
            return Outcome::Failed(syndrome::LOCAL_LENGTH);
        }
        // SAFETY: registered memory, mapped while it is registered, or the request's inline data.
        let Some(payload) = (unsafe { memory::gather(local) }) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        let is_peer = |peer: &QueuePair| {
            peer.number == to.number
                && peer.kind == DATAGRAMS
                && peer.now.receives()
                && peer.now.port == port
                && peer.now.qkey == key
        };
        let is_delivered = to.is_own(port) && !switches().is_down(port);
        let mut found = self.pairs.iter().filter(|(_, peer)| is_delivered && is_peer(peer));
        let peer = found.next().map(|(peer, _)| *peer);
        // RoCE datagrams always have one.
        let has_route = port == ETHERNET || to.has_route;
        let before = if has_route { to.header(port, bytes) } else { [0; ROUTE_BYTES] };
        let whole = [&before[..], &payload].concat();
        let level = if port == ETHERNET { 0 } else { to.level };
        let message = Message {
            payload: &whole,
            kind: if control.has_immediate() {
                kind::RECEIVED_SEND_IMM
            } else {
                kind::RECEIVED_SEND
            },
            bytes: whole.len(),
            immediate: if control.has_immediate() { control.immediate } else { [0; 4] },
            is_solicited: control.is_solicited(),
            flags: u8::from(has_route) << 4 | level,
        };
        match peer {
            // Dropped without a receive; a receive that is too small fails its queue pair.
            Some(peer) => {
                let lid = peers::lid();
                self.receive(peer, Origin { number, lid }, &message);
            }
            None if port != ETHERNET && to.lid != peers::lid() => {
                self.datagram_remotely(to.lid, number, (to.number, key), &message);
            }
            None => {}
        }
        Outcome::Done(bytes)
    }
}
