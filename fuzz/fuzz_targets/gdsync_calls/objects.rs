//! The program's objects, and how calls name them: any number names one, some name none.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::thread::JoinHandle;

use capi::abi::{Cq, Qp, Request};
use ibverbs_sys as raw;

use crate::BYTES;
use crate::machine::Machine;

/// A queue pair as the program knows it: where, and on which NIC.
#[derive(Clone, Copy)]
pub struct Known {
    pub qp: *mut Qp,
    pub nic: usize,
    pub live: bool,
}

pub struct Objects<'m> {
    pub machine: &'m Machine,
    pub pairs: Vec<Known>,
    pub sends: Vec<Request>,
    pub waits: Vec<Request>,
    pub threads: Vec<JoinHandle<()>>,
}

impl Objects<'_> {
    pub fn pieces(&self, pair: u8, offset: u16, length: u16, key: bool) -> Vec<raw::ibv_sge> {
        let nic = &self.machine.nics[self.nic(pair)];
        let offset = usize::from(offset) % BYTES;
        let length = usize::from(length).min(BYTES - offset);
        let sge = raw::ibv_sge {
            addr: (nic.memory.expose_provenance() + offset) as u64,
            length: length as u32,
            lkey: if key { nic.keys.0 } else { 0x6666 },
        };
        vec![sge; 8]
    }

    pub fn at(&self, pair: u8) -> Option<usize> {
        usize::from(pair).checked_rem(self.pairs.len())
    }

    pub fn live(&self, pair: u8) -> Option<Known> {
        self.at(pair).map(|at| self.pairs[at]).filter(|known| known.live)
    }

    pub fn is_live(&self, qp: *mut Qp) -> bool {
        self.pairs.iter().any(|known| known.live && known.qp == qp)
    }

    pub fn nic(&self, pair: u8) -> usize {
        self.at(pair).map_or(0, |at| self.pairs[at].nic)
    }

    /// It may be gone.
    pub fn qp(&self, pair: u8) -> *mut Qp {
        if pair == 255 {
            return null_mut();
        }
        self.at(pair).map_or(null_mut(), |at| self.pairs[at].qp)
    }

    pub fn cq(&self, pair: u8, sent: bool) -> *mut Cq {
        let offset = if sent {
            std::mem::offset_of!(Qp, send_cq)
        } else {
            std::mem::offset_of!(Qp, recv_cq)
        };
        let qp = self.qp(pair);
        if qp.is_null() { null_mut() } else { qp.wrapping_byte_add(offset).cast() }
    }

    pub fn stream(&self, stream: u8) -> *mut c_void {
        self.machine.cuda.stream(stream)
    }
}
