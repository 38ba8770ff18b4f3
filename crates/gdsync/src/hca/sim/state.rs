//! State of the HCA.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::fault::Faults;
use super::link::{Body, Gone, Link, Message};
use super::pair::SimQueuePair;
use super::region::MemoryRegions;
use crate::hca::Endpoint;

#[derive(Debug)]
pub(super) struct State {
    pub lid: u16,
    pub regions: MemoryRegions,
    pub pairs: BTreeMap<u32, SimQueuePair>,
    pub links: HashMap<u16, Arc<dyn Link>>,
    pub faults: Faults,
    /// Number of CQEs so far, used as timestamp.
    pub clock: u64,
    next_qpn: u32,
}

/// Lower QPNs are special or reserved.
const FIRST_QPN: u32 = 0x100;

impl State {
    pub(super) fn new(lid: u16) -> Self {
        Self {
            lid,
            regions: MemoryRegions::default(),
            pairs: BTreeMap::new(),
            links: HashMap::new(),
            faults: Faults::default(),
            clock: 0,
            next_qpn: FIRST_QPN,
        }
    }

    /// An unused QPN.
    pub(super) fn new_qpn(&mut self) -> u32 {
        loop {
            let qpn = self.next_qpn;
            self.next_qpn = match qpn + 1 {
                0xff_ffff.. => FIRST_QPN,
                next => next,
            };
            if !self.pairs.contains_key(&qpn) {
                return qpn;
            }
        }
    }

    /// Sends a message of queue pair `qpn`.
    pub(super) fn send(
        &self,
        qpn: u32,
        to: Endpoint,
        sequence: u64,
        body: Body,
    ) -> Result<(), Gone> {
        let link = self.links.get(&to.lid).ok_or(Gone)?;
        let from = Endpoint::new(self.lid, qpn);
        link.deliver(Message { from, to, sequence, body })
    }
}
