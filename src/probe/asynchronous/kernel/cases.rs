//! What kernels measure: threads, queue pairs, inline data, and how the doorbell is rung.

use super::PART;
use crate::probe::asynchronous::plan::MESSAGE;
use crate::probe::asynchronous::session::Session;
use crate::probe::failure::StepError;

/// Bytes of inline data: with them a WRITE fills one block of 64 bytes.
const INLINE: usize = 28;
/// Messages per doorbell of a rate.
pub const BATCH: u32 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// From building a WQE to its CQE, with one message in flight.
    Latency,
    /// Batches of messages, two in flight.
    Rate,
}

/// How a kernel's doorbell reaches the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ringing {
    Register,
    /// As above, without a doorbell record.
    RegisterAlone,
    BlueFlame,
    Assisted,
}

/// One measured case.
#[derive(Debug)]
pub struct Case {
    pub name: &'static str,
    pub figure: Figure,
    /// Threads that drive one queue pair.
    pub threads: u32,
    pub pairs: usize,
    pub inline: bool,
    pub ringing: Ringing,
}

const THREAD: Case = Case {
    name: "thread",
    figure: Figure::Latency,
    threads: 1,
    pairs: 1,
    inline: false,
    ringing: Ringing::Register,
};
const WARP: Case = Case { name: "warp", threads: 32, ..THREAD };
const BLOCK: Case = Case { name: "block", threads: 128, ..THREAD };
const INLINE_DATA: Case = Case { name: "inline", inline: true, ..THREAD };
const BLUE_FLAME: Case = Case { name: "blueflame", ringing: Ringing::BlueFlame, ..INLINE_DATA };
const ASSISTED: Case = Case { name: "assisted", ringing: Ringing::Assisted, ..THREAD };
const RECORDLESS: Case = Case { name: "recordless", ringing: Ringing::RegisterAlone, ..THREAD };
const RATE: Figure = Figure::Rate;

/// Latencies, then rates.
pub const CASES: &[Case] = &[
    THREAD,
    WARP,
    BLOCK,
    INLINE_DATA,
    BLUE_FLAME,
    RECORDLESS,
    ASSISTED,
    Case { figure: RATE, ..THREAD },
    Case { figure: RATE, ..WARP },
    Case { figure: RATE, ..BLOCK },
    Case { name: "warp.inline", inline: true, figure: RATE, ..WARP },
    Case { name: "warp.pairs4", pairs: 4, figure: RATE, ..WARP },
    Case { figure: RATE, threads: 32, ..RECORDLESS },
    Case { figure: RATE, threads: 32, ..ASSISTED },
];

impl Case {
    /// The name of its result, as in `async.kernel.warp.rate`.
    pub fn label(&self) -> String {
        let figure = match self.figure {
            Figure::Latency => "latency",
            Figure::Rate => "rate",
        };
        format!("{PART}.{}.{figure}", self.name)
    }

    /// True for the case that every mode has.
    pub fn is_plain(&self) -> bool {
        self.name == THREAD.name
    }

    pub fn bytes(&self, session: &Session<'_>) -> usize {
        if self.inline {
            INLINE
        } else {
            let sizes = session.task.terms.message_sizes();
            sizes.first().copied().unwrap_or(MESSAGE)
        }
    }

    /// Messages per doorbell.
    pub fn batch(&self) -> u32 {
        match self.figure {
            Figure::Latency => 1,
            Figure::Rate => BATCH,
        }
    }

    /// Batches in flight beyond the oldest one.
    pub fn ahead(&self) -> u32 {
        u32::from(self.figure == Figure::Rate)
    }

    /// Messages in all, whole batches on each queue pair. Latencies of a kernel vary little.
    pub fn messages(&self, session: &Session<'_>) -> u32 {
        let all = session.task.terms.depth.async_messages();
        let all = match self.figure {
            Figure::Latency => all.min(20_000),
            Figure::Rate => all,
        };
        all.next_multiple_of(self.batch() * self.pairs as u32)
    }

    /// What to do about an error.
    pub fn next_step(&self, error: &StepError) -> &'static str {
        match (self.ringing, error) {
            (_, StepError::Wqe { .. }) => {
                "the NIC rejected the WQE or the memory: see dmesg and gdr doctor --live --only rdma.register"
            }
            (
                Ringing::Register | Ringing::RegisterAlone | Ringing::BlueFlame,
                StepError::Queues(_),
            ) => {
                "see gdr doctor --live --only rdma.uar-map,param.peer-mapping; the mode with a doorbell by the CPU needs no mapping of the \
                 register"
            }
            (Ringing::BlueFlame, _) => "ring with 8 bytes instead",
            (Ringing::RegisterAlone, _) => "ring with a doorbell record instead",
            (Ringing::Register, _) => {
                "the next mode, a doorbell by the CPU, needs no access of the GPU to the register"
            }
            (Ringing::Assisted, _) => {
                "use --hca proxy, which needs neither DEVX nor the NIC's queues"
            }
        }
    }
}
