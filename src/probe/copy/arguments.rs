//! The command line of `gdr probe copy`.

use clap::{Args, ValueEnum};

use super::cases::TESTS;
use super::child::kernels;
use super::parent::Options;
use super::task::{
    Allocator, Choices, DataRounds, MappingChoice, MemoryLocation, Producer, RoundTrips,
};
use crate::probe::arguments::{Arguments, ByteSize, ScopeArguments, UsageError, copying_nodes};
use crate::probe::scope::{Nodes, Scope};

/// `gdr probe copy`.
#[derive(Debug, Args)]
pub struct CopyProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: ScopeArguments,

    /// Use only this backend; by default the first that works
    #[arg(long, value_name = "BACKEND", value_enum, conflicts_with = "sim")]
    pub backend: Option<CopyBackend>,

    /// Use only this copy kernel, such as avx512, avx2, sse41 or portable
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,

    /// NUMA nodes of the CPUs: all, that of the GPU (near), or a number [default: near with --quick, else all]
    #[arg(long, value_name = "NODE")]
    pub numa: Option<Nodes>,

    /// Run only this test; may be repeated, and --list-tests names them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub test: Vec<String>,

    /// List the tests, with gdrcopy's names for them, and do nothing else
    #[arg(long, conflicts_with = "test")]
    pub list_tests: bool,

    /// Allocate the buffers of the measurements with this function
    #[arg(long, value_name = "FUNCTION", value_enum, default_value_t = Allocator::Malloc)]
    pub allocator: Allocator,

    /// Map the buffers of the measurements with this memory type; an error if the backend maps another
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = MappingChoice::Default)]
    pub mapping: MappingChoice,

    /// Copy to and from this offset in the buffer, such as 64 or 4KiB
    #[arg(long, value_name = "SIZE", value_parser = offset, default_value = "0")]
    pub offset: usize,

    /// Run each copy, call and round trip this often, instead of until its median is known
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub iterations: Option<u32>,

    /// Let the GPU write the buffer before each copy through the mapping, so that no CPU cache holds it; for cached
    /// mappings
    #[arg(long)]
    pub cold: bool,

    /// Who begins each round trip of ping-pong, and writes its data
    #[arg(long, value_name = "SIDE", value_enum, default_value_t = Producer::Cpu)]
    pub producer: Producer,

    /// Where the word is that the CPU writes in a round trip
    #[arg(long, value_name = "MEMORY", value_enum, default_value_t = MemoryLocation::Gpu)]
    pub flag: MemoryLocation,

    /// Where the word is that the kernel writes in a round trip
    #[arg(long, value_name = "MEMORY", value_enum, default_value_t = MemoryLocation::Host)]
    pub reply: MemoryLocation,

    /// Let the producer write this much data before its word, and the other side verify it
    #[arg(long, value_name = "SIZE")]
    pub data: Option<ByteSize>,

    /// Where the data of round trips is
    #[arg(long, value_name = "MEMORY", requires = "data", value_enum, default_value_t = MemoryLocation::Gpu)]
    pub data_in: MemoryLocation,

    /// Blocks of the kernel of ping-pong with data, each with a flag and an answer of its own [default: 8, or as many
    /// as the GPU runs at once]
    #[arg(long, value_name = "COUNT", requires = "data", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub blocks: Option<u32>,

    /// Threads of each of these blocks
    #[arg(long, value_name = "COUNT", requires = "data", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: u32,
}

/// Backend that maps GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopyBackend {
    /// gdrcopy's kernel module.
    Gdrdrv,
    /// The driver's dma-buf (R610 and later).
    Dmabuf,
    /// The driver's resource manager; needs neither root nor a module.
    Rm,
}

impl Arguments for CopyProbe {
    type Probe = Options;
    const PROFILE: &'static str = "gdrcopy";

    fn scope(&self) -> &ScopeArguments {
        &self.scope
    }

    fn probe(&self, scope: Scope, _: bool) -> Result<Options, UsageError> {
        self.check_names()?;
        Ok(Options {
            backend: self.backend.map(|backend| {
                match backend {
                    CopyBackend::Gdrdrv => "gdrdrv",
                    CopyBackend::Dmabuf => "dmabuf",
                    CopyBackend::Rm => "rm",
                }
                .to_owned()
            }),
            kernel: self.kernel.clone(),
            nodes: copying_nodes(self.numa, scope.terms.depth),
            choices: Choices {
                tests: self.test.clone(),
                allocator: self.allocator,
                mapping: self.mapping,
                offset: self.offset,
                iterations: self.iterations,
                cold: self.cold,
                round_trips: RoundTrips {
                    producer: self.producer,
                    flag: self.flag,
                    reply: self.reply,
                    data: self.data_rounds()?,
                },
            },
            scope,
        })
    }
}

impl CopyProbe {
    /// Fails for a kernel or a test that there is not.
    fn check_names(&self) -> Result<(), UsageError> {
        if let Some(kernel) = &self.kernel {
            let known = kernels();
            if !known.contains(&kernel.as_str()) {
                let known = known.join(", ");
                return Err(
                    format!("unknown copy kernel '{kernel}'; this machine has: {known}").into()
                );
            }
        }
        for name in &self.test {
            if TESTS.iter().all(|test| test.name != name) {
                let known: Vec<&str> = TESTS.iter().map(|test| test.name).collect();
                let known = known.join(", ");
                return Err(format!(
                    "unknown test '{name}'; there are: {known} (--list-tests explains them)"
                )
                .into());
            }
        }
        Ok(())
    }

    /// The data of ping-pong.
    fn data_rounds(&self) -> Result<Option<DataRounds>, UsageError> {
        let Some(size) = &self.data else {
            return Ok(None);
        };
        if !size.0.is_multiple_of(4) {
            return Err(format!(
                "--data {}: it is made of words of 4 bytes: use a multiple of 4",
                size.0
            )
            .into());
        }
        if !self.test.is_empty() && self.test.iter().all(|test| test != "ping-pong") {
            return Err(
                "--data needs the test ping-pong: add --test ping-pong, or omit --data".into()
            );
        }
        Ok(Some(DataRounds {
            bytes: size.0,
            place: self.data_in,
            blocks: self.blocks,
            threads: self.threads,
        }))
    }
}

/// An offset; unlike a size it may be 0.
fn offset(text: &str) -> Result<usize, String> {
    match text {
        "0" => Ok(0),
        text => text.parse().map(|ByteSize(bytes)| bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_may_be_0() {
        assert_eq!(offset("0"), Ok(0));
        assert_eq!(offset("4KiB"), Ok(4096));
        for text in ["", "-1", "2G", "00", "x"] {
            assert!(offset(text).is_err(), "{text}");
        }
    }
}
