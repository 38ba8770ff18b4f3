//! Latencies of streams, queues and kernels. Headings are those of rows.

use super::{FigureKind, latency, rate};

pub const POLL_HOST: FigureKind =
    latency("async.poll.host.latency", "a stream reads a word in host memory, and answers")
        .drawn(1, "a word in host memory");
pub const POLL_GPU: FigureKind =
    latency("async.poll.gpu.latency", "a stream reads a word in GPU memory, and answers")
        .drawn(2, "a word in GPU memory");
pub const DOORBELL: FigureKind =
    latency("async.doorbell.latency", "the same, rings, and the HCA writes")
        .drawn(3, "and a doorbell");

/// Parts, as results name one that cannot run.
pub const ORDERS: &str = "validate.stream";
pub const POLLS: &str = "async.poll";
pub const DOORBELLS: &str = "async.doorbell";
pub const KERNEL: &str = "async.kernel";

/// The page of the doorbell is registered with CUDA.
pub const REGISTER: &str = "async.register";

/// Latencies without messages.
pub const WORDS: [FigureKind; 3] = [POLL_HOST, POLL_GPU, DOORBELL];

/// How a message travels. Its transport and order stand between its name and the driver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagePath {
    Loopback,
    PingPong,
}

/// Who rings for a message, and waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageDriver {
    Stream,
    Cpu,
}

impl MessagePath {
    pub const ALL: [Self; 2] = [Self::Loopback, Self::PingPong];

    /// The first words of its names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "async.loopback",
            Self::PingPong => "async.pingpong",
        }
    }

    /// The title of its chart.
    pub fn title(self) -> &'static str {
        match self {
            Self::Loopback => "messages",
            Self::PingPong => "messages between two processes",
        }
    }

    /// Its row.
    pub fn heading(self, driver: MessageDriver) -> String {
        let by = driver.words(self);
        match self {
            Self::Loopback => format!("a message over the loop, by the {by}"),
            Self::PingPong => format!("a message to another process, by the {by}"),
        }
    }

    /// As in `async.loopback.ud.stream.latency`; each of the details has a dot before it.
    pub fn latency(self, details: &str, driver: MessageDriver) -> String {
        format!("{}{details}.{}.latency", self.name(), driver.name())
    }

    /// The details of a name of this path and driver.
    pub fn details(self, driver: MessageDriver, name: &str) -> Option<&str> {
        let rest = name.strip_prefix(self.name())?.strip_suffix(".latency")?;
        rest.strip_suffix(driver.name())?.strip_suffix('.')
    }
}

impl MessageDriver {
    pub const ALL: [Self; 2] = [Self::Stream, Self::Cpu];

    fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Cpu => "cpu",
        }
    }

    /// For people. A ping-pong has two of them.
    pub fn words(self, path: MessagePath) -> &'static str {
        match (self, path) {
            (Self::Stream, MessagePath::Loopback) => "stream",
            (Self::Stream, MessagePath::PingPong) => "streams",
            (Self::Cpu, MessagePath::Loopback) => "CPU",
            (Self::Cpu, MessagePath::PingPong) => "CPUs",
        }
    }

    /// The line in the chart, from 1.
    pub fn line(self) -> usize {
        match self {
            Self::Stream => 1,
            Self::Cpu => 3,
        }
    }
}

macro_rules! kernels {
    ($($case:ident: $quantity:ident($name:literal, $heading:literal);)+) => {
        $(pub const $case: FigureKind = $quantity(
            concat!("async.kernel.", $name, ".", stringify!($quantity)),
            $heading,
        );)+

        /// Messages that a kernel posts: latencies and rates.
        pub const KERNELS: &[FigureKind] = &[$($case),+];
    };
}

kernels! {
    THREAD: latency("thread", "a WRITE posted by a thread of a kernel");
    WARP: latency("warp", "the same, by a warp");
    BLOCK: latency("block", "the same, by a block of threads");
    INLINE: latency("inline", "the same, by a thread, with inline data");
    BLUEFLAME: latency("blueflame", "the same, rung by BlueFlame");
    RECORDLESS: latency("recordless", "the same, by a thread, without a doorbell record");
    ASSISTED: latency("assisted", "a WRITE posted by a thread, rung by the CPU");
    THREAD_RATE: rate("thread", "by a thread");
    WARP_RATE: rate("warp", "by a warp");
    BLOCK_RATE: rate("block", "by a block of threads");
    WARP_INLINE_RATE: rate("warp.inline", "by a warp, with inline data");
    WARP_PAIRS4_RATE: rate("warp.pairs4", "by four warps on four queue pairs");
    RECORDLESS_RATE: rate("recordless", "by a warp, without a doorbell record");
    ASSISTED_RATE: rate("assisted", "by a warp, rung by the CPU");
}
