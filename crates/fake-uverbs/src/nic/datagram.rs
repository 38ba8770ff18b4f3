//! Datagrams: a request says itself whom it is for. What nobody takes is lost, and its sender does not hear of it.

use crate::device::{ETHERNET, MTU};
use crate::nic::arrival::Message;
use crate::nic::completion::kind;
use crate::nic::entry::Control;
use crate::nic::memory::{self, Segment};
use crate::nic::pair::{DATAGRAMS, Pair};
use crate::nic::perform::Outcome;
use crate::nic::ports;
use crate::nic::syndrome;
use crate::nic::world::World;
use crate::switches::switches;

/// What a receive has before the message: room for a global route header (`struct ibv_grh`), filled where there was one.
const ROUTE_BYTES: usize = 40;

/// Whom a request is for: `struct mlx5_wqe_av` of `mlx5dv.h`, whose numbers are big-endian.
#[derive(Debug, Clone, Copy)]
pub struct Address {
    key: u32,
    number: u32,
    level: u8,
    lid: u16,
    mac: [u8; 6],
    class: u8,
    hops: u8,
    /// On InfiniBand: whether there is a global route.
    has_route: bool,
    own_gid_index: u8,
    flow_label: u32,
    gid: [u8; 16],
}

impl Address {
    pub const BYTES: usize = 48;

    /// None of one that is not whole: `MLX5_EXTENDED_UD_AV` says that what follows the first 16 bytes is there.
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

    /// Whether it leads to the port itself. The double's network answers for a GID with the MAC address that `CREATE_AH` tells.
    fn is_own(&self, port: u8) -> bool {
        match port {
            ETHERNET => ports::has_gid(port, &self.gid) && self.mac == ports::mac(&self.gid),
            _ => {
                ports::has_lid(port, self.lid)
                    && (!self.has_route || ports::has_gid(port, &self.gid))
            }
        }
    }

    /// The global route header that a message of so many bytes has (InfiniBand's specification, 8.3): version 6, traffic class and
    /// flow label; the length of what follows, up to the checks at its end; the next header's number; the hops that are left; from, to.
    ///
    /// RoCE v2 has an IP header instead. Here that is not told apart.
    fn header(&self, port: u8, bytes: usize) -> [u8; ROUTE_BYTES] {
        /// Base and datagram header, and the invariant check.
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

impl World {
    /// Sends a datagram: its sender is done with it, wherever it comes to.
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
        // The key of a request whose highest bit is set stands for the sender's own (the specification's 10.2.5).
        let key = if to.key >> 31 != 0 {
            own.now.qkey
        } else {
            to.key
        };
        let bytes: usize = local.iter().map(|segment| segment.bytes).sum();
        if bytes > MTU {
            return Outcome::Failed(syndrome::LOCAL_LENGTH);
        }
        // SAFETY: registered memory, which is mapped for as long as it is registered, or the request's own bytes.
        let Some(payload) = (unsafe { memory::gather(local) }) else {
            return Outcome::Failed(syndrome::LOCAL_OPERATION);
        };
        let is_peer = |peer: &Pair| {
            peer.number == to.number
                && peer.kind == DATAGRAMS
                && peer.now.receives()
                && peer.now.port == port
                && peer.now.qkey == key
        };
        let is_delivered = to.is_own(port) && !switches().is_down(port);
        let mut found = self
            .pairs
            .iter()
            .filter(|(_, peer)| is_delivered && is_peer(peer));
        let Some(peer) = found.next().map(|(peer, _)| *peer) else {
            return Outcome::Done(bytes);
        };
        // All of RoCE's have one.
        let has_route = port == ETHERNET || to.has_route;
        let before = if has_route {
            to.header(port, bytes)
        } else {
            [0; ROUTE_BYTES]
        };
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
            immediate: if control.has_immediate() {
                control.immediate
            } else {
                [0; 4]
            },
            is_solicited: control.is_solicited(),
            flags: u8::from(has_route) << 4 | level,
        };
        // Without a receive it is dropped; one that is too small fails, and its queue pair with it.
        self.receive(peer, number, &message);
        Outcome::Done(bytes)
    }
}
