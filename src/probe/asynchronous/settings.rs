//! How messages are exchanged: the options of libgdsync's gds_kernel_latency and gds_kernel_loopback_latency.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::plan::MESSAGE;
use crate::model::figure::asynchronous::{MessageDriver, MessagePath};
use crate::probe::terms::Terms;

/// Messages queued together, as in libgdsync's programs.
pub const BATCH: u32 = 20;
/// Batches in flight: while one runs, the CPU queues the next.
pub const BATCHES: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Messages queued together.
    pub batch: u32,
    /// Kernels write and compare the messages of the loop; otherwise the CPU does, outside the measured time.
    pub kernels: bool,
    /// A further kernel between messages writes this many bytes.
    pub compute: Option<usize>,
    /// Kernels also drive queues themselves.
    pub by_kernel: bool,
    pub schedule: Schedule,
    pub transports: Vec<Transport>,
    pub order: Order,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            batch: BATCH,
            kernels: true,
            compute: None,
            by_kernel: false,
            schedule: Schedule::Auto,
            transports: vec![Transport::Rc],
            order: Order::InOrder,
        }
    }
}

/// How CPU threads wait for the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// CUDA's choice.
    Auto,
    /// They poll.
    Spin,
    /// They poll, and let other threads run.
    Yield,
    /// They sleep.
    Blocking,
}

impl Schedule {
    pub fn of_gpu(self) -> gpu::Schedule {
        match self {
            Self::Auto => gpu::Schedule::Auto,
            Self::Spin => gpu::Schedule::Spin,
            Self::Yield => gpu::Schedule::Yield,
            Self::Blocking => gpu::Schedule::Blocking,
        }
    }
}

/// Transport of the queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Datagrams of at most 4 KiB.
    Ud,
}

/// The order in which a stream waits for the messages of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As they arrive, each sent after the one before has arrived.
    InOrder,
    /// All of a batch are sent, then the stream waits for the last one first.
    OutOfOrder,
}

/// One series of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    pub transport: Transport,
    pub order: Order,
    pub bytes: usize,
    /// Messages per batch.
    pub batch: u32,
}

/// Longest datagram: the largest MTU.
const LONGEST_DATAGRAM: usize = 4096;
/// Limit for the memory of all slots.
pub const MAX_SLOT_BYTES: usize = 64 << 20;
/// Limit for the bytes sent, so that large messages take no longer than small ones.
const MAX_TOTAL_BYTES: usize = 1 << 30;

impl Settings {
    /// Each transport with each size, and sizes that no datagram has.
    pub fn series(&self, terms: &Terms) -> (Vec<Series>, Vec<usize>) {
        let mut too_long = Vec::new();
        let mut series = Vec::new();
        for transport in self.transports.iter().copied() {
            for bytes in terms.message_sizes() {
                if transport == Transport::Ud && bytes > LONGEST_DATAGRAM {
                    too_long.push(bytes);
                    continue;
                }
                let most = (MAX_SLOT_BYTES / bytes / BATCHES).max(1);
                series.push(Series {
                    transport,
                    order: self.order,
                    bytes,
                    batch: self.batch.min(most as u32),
                });
            }
        }
        (series, too_long)
    }

    /// The settings that are not the default, as a sentence.
    pub fn note(&self) -> Option<String> {
        let mut words = Vec::new();
        if self.batch != BATCH {
            words.push(format!("batches of {} messages", self.batch));
        }
        if !self.kernels {
            words.push("no kernels write and compare messages".to_owned());
        }
        if let Some(bytes) = self.compute {
            words.push(format!("a kernel per message that writes {bytes} bytes"));
        }
        match self.schedule {
            Schedule::Auto => {}
            Schedule::Spin => words.push("threads spin while they wait for the GPU".to_owned()),
            Schedule::Yield => words.push("threads yield while they wait for the GPU".to_owned()),
            Schedule::Blocking => {
                words.push("threads sleep while they wait for the GPU".to_owned());
            }
        }
        if self.order == Order::OutOfOrder {
            words.push("streams wait for the last message of a batch first".to_owned());
        }
        (!words.is_empty()).then(|| format!("Settings: {}.", words.join("; ")))
    }
}

impl Series {
    /// Messages in flight in one direction.
    pub fn slots(&self) -> usize {
        self.batch as usize * BATCHES
    }

    /// The number of messages that a stream sends, at least those in flight.
    pub fn messages(&self, terms: &Terms) -> u32 {
        let most = (MAX_TOTAL_BYTES / self.bytes).max(self.slots());
        let wanted = terms.depth.async_messages();
        wanted.min(u32::try_from(most).unwrap_or(wanted))
    }

    /// The name of a latency, as in `async.loopback.stream.latency`.
    pub fn latency(&self, path: MessagePath, driver: MessageDriver) -> String {
        let transport = match self.transport {
            Transport::Rc => "",
            Transport::Ud => ".ud",
        };
        let order = match self.order {
            Order::InOrder => "",
            Order::OutOfOrder => ".out-of-order",
        };
        path.latency(&format!("{transport}{order}"), driver)
    }

    /// The default one with this size.
    #[cfg(test)]
    pub fn of(bytes: usize) -> Self {
        Self { transport: Transport::Rc, order: Order::InOrder, bytes, batch: BATCH }
    }
}

const _: () = assert!(MESSAGE <= LONGEST_DATAGRAM);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::probe::depth::Depth;

    #[test]
    fn combines_transports_and_sizes() {
        let settings = Settings {
            transports: vec![Transport::Rc, Transport::Ud],
            batch: 100,
            ..Settings::default()
        };
        let terms = Terms::quick(&[100, 4096, 4 << 20], Duration::ZERO);
        let (series, too_long) = settings.series(&terms);
        let found: Vec<_> = series
            .iter()
            .map(|series| {
                (
                    series.latency(MessagePath::Loopback, MessageDriver::Cpu),
                    series.bytes,
                    series.batch,
                )
            })
            .collect();
        let rc = "async.loopback.cpu.latency";
        let ud = "async.loopback.ud.cpu.latency";
        // 64 MiB for two batches of 4 MiB each are 8 messages; 100 bytes are 96, in words of 16.
        let expected =
            [(rc, 96, 100), (rc, 4096, 100), (rc, 4 << 20, 8), (ud, 96, 100), (ud, 4096, 100)];
        assert_eq!(found, expected.map(|(name, bytes, batch)| (name.to_owned(), bytes, batch)));
        assert_eq!(too_long, [4 << 20]);
        // At most 1 GiB.
        let terms = Terms { depth: Depth::Default, ..terms };
        let messages: Vec<_> = series.iter().map(|series| series.messages(&terms)).collect();
        let all = if cfg!(debug_assertions) { 260 } else { 2600 };
        assert_eq!(messages, [all, all, 256, all, all]);
    }

    #[test]
    fn names_changed_settings() {
        assert_eq!(Settings::default().note(), None);
        let settings = Settings {
            batch: 1,
            kernels: false,
            schedule: Schedule::Spin,
            order: Order::OutOfOrder,
            ..Settings::default()
        };
        let note = settings.note().expect("a note");
        for words in ["batches of 1 ", "no kernels", "spin", "last message"] {
            assert!(note.contains(words), "{note}");
        }
    }
}
