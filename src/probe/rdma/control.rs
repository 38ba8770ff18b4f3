//! Messages between the two ends.

use std::net::Ipv6Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::counters::Rise;
use super::kind::Kind;
use super::paging::Paging;
use super::purpose::Purpose;
use super::srd::Abilities;
use crate::probe::channel::Channel;
use crate::probe::failure::StepError;

/// A message between the two ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The sender's port and memory: both send it first.
    Offer(Offer),
    /// From the client: the next step.
    Step(Step),
    /// Its queue pairs, and its memory if the other end needs the rkey: both send it, after [`Step::Connect`].
    #[serde(rename = "pairs")]
    QueuePairs(Vec<Endpoint>, Option<Window>),
    /// From the server: seconds for one of its requests, after [`Step::Both`].
    Took(f64),
    /// The sender is ready for the step.
    Ready,
    /// The sender finished its part of the step.
    Done,
    /// From the server: counters that rose since it was ready, after [`Step::End`].
    Counters(Vec<Rise>),
    /// From the server: the error in the bytes that arrived; none if they are right.
    Found(Option<String>),
}

/// A port and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The port's local identifier.
    pub lid: u16,
    pub gid: Option<Ipv6Addr>,
    /// The payload of its packets.
    pub mtu: u32,
    /// RDMA reads in flight at once.
    pub reads: u8,
    /// Its link is Ethernet.
    pub ethernet: bool,
    /// Half of its memory's bytes: the largest message, and a little.
    pub half: u64,
    /// Its GPU memory is reached by copies through pinned memory.
    pub staged: bool,
    /// It has pinned memory for staged copies.
    pub pinned: bool,
    /// The CPU can poll its memory for arriving bytes.
    pub seen: bool,
    /// Its memory is a simulated GPU's.
    pub simulated: bool,
    /// Its NIC may relax the order of writes into its memory.
    pub relaxed_ordering: bool,
    /// What it offers for memory with on-demand paging; none if nothing.
    pub on_demand: Option<Paging>,
    /// Its NIC has atomic operations.
    pub atomics: bool,
    /// The P_Key of its packets.
    pub pkey: u16,
    /// What SRD can do at its port; none if it is not of EFA.
    pub srd: Option<Abilities>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub queue_pair: u32,
    /// The PSN of its first packet: random.
    pub psn: u32,
    pub qkey: u32,
}

/// Memory that the other end may use during the test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub address: u64,
    pub rkey: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub kind: Kind,
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages on each queue pair.
    pub count: u32,
    /// Messages in flight on each queue pair.
    pub depth: u32,
    /// Bytes of a chunk of a staged message.
    pub chunk: usize,
    /// Seeds of the pattern that is sent and of the one in the target before; none compares nothing.
    pub seeds: Option<[u64; 2]>,
    /// How long all of it may take, beyond the timeout of either end.
    pub time: Duration,
}

/// A step of a test case.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Connect for a test case.
    Connect(Purpose),
    /// Destroy the queue pairs and memory regions of the test case, and answer [`Message::Done`].
    Disconnect,
    /// Move a pattern once, and compare it.
    Verify {
        kind: Kind,
        /// Bytes; 8 for atomic operations.
        bytes: usize,
        /// Seeds of the pattern that is sent and of the one in the target before.
        seeds: [u64; 2],
    },
    /// Writes into pages that the server has just released, and into the same pages once more.
    FirstTouch {
        /// Bytes of a message.
        bytes: usize,
        /// How often.
        count: u32,
        /// The seed of the pattern that is sent.
        seed: u64,
        /// How long all of it may take, beyond the timeout of either end.
        time: Duration,
    },
    /// Bandwidth of pipelined requests.
    Stream(Flow),
    /// Bandwidth of writes from both ends at once.
    Both(Flow),
    /// Bandwidth between GPU memories by copies through pinned memory.
    Staged(Flow),
    /// Latency of ping-pong messages; reads and atomics are one-sided.
    #[serde(rename = "turns")]
    PingPong {
        kind: Kind,
        /// Bytes of a message.
        bytes: usize,
        count: u32,
        /// How long all of it may take, beyond the timeout of either end.
        time: Duration,
    },
    End,
}

/// The connection between the two ends, beside the NICs.
pub type Control = Channel<Message>;

/// Receives this message, and nothing else.
pub fn expect(control: &mut Control, expected: &Message, time: Duration) -> Result<(), StepError> {
    match control.receive(time)? {
        message if message == *expected => Ok(()),
        _ => Err(StepError::OutOfStep),
    }
}
