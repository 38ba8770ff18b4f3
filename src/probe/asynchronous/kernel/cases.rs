//! What kernels measure: threads, queue pairs, inline data, and how the doorbell is rung.

use crate::model::MILLIONS_PER_SECOND;
use crate::model::figure::FigureKind;
use crate::model::figure::asynchronous as kernels;
use crate::probe::asynchronous::plan::MESSAGE;
use crate::probe::asynchronous::session::Session;
use crate::probe::failure::StepError;

/// Bytes of inline data: with them a WRITE fills one block of 64 bytes.
const INLINE: usize = 28;
/// Messages per doorbell of a rate.
pub const BATCH: u32 = 32;

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
    /// A latency is from building a WQE to its CQE, with one message in flight; a rate of batches of messages, two in flight.
    pub figure: FigureKind,
    /// Threads that drive one queue pair.
    pub threads: u32,
    pub pairs: usize,
    pub inline: bool,
    pub ringing: Ringing,
}

const THREAD: Case = Case {
    figure: kernels::THREAD,
    threads: 1,
    pairs: 1,
    inline: false,
    ringing: Ringing::Register,
};
const WARP: Case = Case { figure: kernels::WARP, threads: 32, ..THREAD };
const BLOCK: Case = Case { figure: kernels::BLOCK, threads: 128, ..THREAD };
const INLINE_DATA: Case = Case { figure: kernels::INLINE, inline: true, ..THREAD };
const BLUE_FLAME: Case =
    Case { figure: kernels::BLUEFLAME, ringing: Ringing::BlueFlame, ..INLINE_DATA };
const ASSISTED: Case = Case { figure: kernels::ASSISTED, ringing: Ringing::Assisted, ..THREAD };
const RECORDLESS: Case =
    Case { figure: kernels::RECORDLESS, ringing: Ringing::RegisterAlone, ..THREAD };

/// Latencies, then rates.
pub const CASES: &[Case] = &[
    THREAD,
    WARP,
    BLOCK,
    INLINE_DATA,
    BLUE_FLAME,
    RECORDLESS,
    ASSISTED,
    Case { figure: kernels::THREAD_RATE, ..THREAD },
    Case { figure: kernels::WARP_RATE, ..WARP },
    Case { figure: kernels::BLOCK_RATE, ..BLOCK },
    Case { figure: kernels::WARP_INLINE_RATE, inline: true, ..WARP },
    Case { figure: kernels::WARP_PAIRS4_RATE, pairs: 4, ..WARP },
    Case { figure: kernels::RECORDLESS_RATE, threads: 32, ..RECORDLESS },
    Case { figure: kernels::ASSISTED_RATE, threads: 32, ..ASSISTED },
];

impl Case {
    pub fn is_rate(&self) -> bool {
        self.figure.unit == MILLIONS_PER_SECOND
    }

    /// True for the cases that every mode has.
    pub fn is_plain(&self) -> bool {
        [kernels::THREAD, kernels::THREAD_RATE].contains(&self.figure)
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
        if self.is_rate() { BATCH } else { 1 }
    }

    /// Batches in flight beyond the oldest one.
    pub fn ahead(&self) -> u32 {
        u32::from(self.is_rate())
    }

    /// Messages in all, whole batches on each queue pair. Latencies of a kernel vary little.
    pub fn messages(&self, session: &Session<'_>) -> u32 {
        let all = session.task.terms.depth.async_messages();
        let all = if self.is_rate() { all } else { all.min(20_000) };
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
