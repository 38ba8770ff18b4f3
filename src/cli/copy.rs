//! Arguments of `gdr probe copy`.

use clap::{Args, ValueEnum};

use super::scope::{ByteSize, NumaChoice, Scope};

/// `gdr probe copy`.
#[derive(Debug, Args)]
pub struct CopyProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: Scope,

    /// Use only this backend; by default the first that works
    #[arg(long, value_name = "BACKEND", value_enum, conflicts_with = "sim")]
    pub backend: Option<CopyBackend>,

    /// Use only this copy kernel, such as avx512, avx2, sse41 or portable
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,

    /// NUMA nodes of the CPUs: all, that of the GPU (near), or a number [default: near with --quick, else all]
    #[arg(long, value_name = "NODE")]
    pub numa: Option<NumaChoice>,

    /// Run only this test; may be repeated, and --list-tests names them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub test: Vec<String>,

    /// List the tests, with gdrcopy's names for them, and do nothing else
    #[arg(long, conflicts_with = "test")]
    pub list_tests: bool,

    /// Allocate the buffers of the measurements with this function
    #[arg(long, value_name = "FUNCTION", value_enum, default_value_t = CopyAllocator::Malloc)]
    pub allocator: CopyAllocator,

    /// Map the buffers of the measurements with this memory type; an error if the backend maps another
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = CopyMapping::Default)]
    pub mapping: CopyMapping,

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
    #[arg(long, value_name = "SIDE", value_enum, default_value_t = CopyProducer::Cpu)]
    pub producer: CopyProducer,

    /// Where the word is that the CPU writes in a round trip
    #[arg(long, value_name = "MEMORY", value_enum, default_value_t = CopyPlace::Gpu)]
    pub flag: CopyPlace,

    /// Where the word is that the kernel writes in a round trip
    #[arg(long, value_name = "MEMORY", value_enum, default_value_t = CopyPlace::Host)]
    pub reply: CopyPlace,

    /// Let the producer write this much data before its word, and the other side verify it
    #[arg(long, value_name = "SIZE")]
    pub data: Option<ByteSize>,

    /// Where the data of round trips is
    #[arg(long, value_name = "MEMORY", requires = "data", value_enum, default_value_t = CopyPlace::Gpu)]
    pub data_in: CopyPlace,

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

/// Function that allocates GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopyAllocator {
    /// As cudaMalloc does.
    #[value(name = "cuMemAlloc")]
    Malloc,
    /// With a mapping of its own.
    #[value(name = "cuMemCreate")]
    Create,
    /// A pool of cuMemAllocFromPoolAsync that can be exported.
    #[value(name = "pool")]
    Pool,
}

/// Memory type of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopyMapping {
    /// The backend's choice.
    Default,
    /// Write-combined.
    Wc,
    /// Cached, on GPUs with NVLink-C2C.
    Cache,
    /// Uncached, stores are not combined.
    Device,
}

/// Who begins a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopyProducer {
    /// The CPU writes, and the kernel answers.
    Cpu,
    /// The kernel writes, and the CPU answers.
    Gpu,
}

/// Memory of a word or of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CopyPlace {
    /// GPU memory, through the mapping.
    Gpu,
    /// Pinned host memory.
    Host,
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
