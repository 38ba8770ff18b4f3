//! Options of `gdr probe copy`, and the list of its tests.

use anyhow::bail;

use crate::cli::{CopyAllocator, CopyBackend, CopyMapping, CopyPlace, CopyProbe, CopyProducer};
use crate::probe::copy::{
    self, Allocator, Choices, DataRounds, MappingChoice, MemoryLocation, Producer, RoundTrips,
    TESTS,
};
use crate::probe::scope::{Nodes, Scope};
use crate::render::Style;
use crate::render::probe::{ListedTest, test_list};

pub fn copy_options(
    scope: Scope,
    nodes: Nodes,
    wanted: &CopyProbe,
) -> anyhow::Result<copy::Options> {
    if let Some(kernel) = &wanted.kernel {
        let known = copy::kernels();
        if !known.contains(&kernel.as_str()) {
            bail!("unknown copy kernel '{kernel}'; this machine has: {}", known.join(", "));
        }
    }
    for name in &wanted.test {
        if TESTS.iter().all(|test| test.name != name) {
            let known: Vec<&str> = TESTS.iter().map(|test| test.name).collect();
            bail!(
                "unknown test '{name}'; there are: {} (--list-tests explains them)",
                known.join(", ")
            );
        }
    }
    let data = data(wanted)?;
    Ok(copy::Options {
        backend: wanted.backend.map(|backend| {
            match backend {
                CopyBackend::Gdrdrv => "gdrdrv",
                CopyBackend::Dmabuf => "dmabuf",
                CopyBackend::Rm => "rm",
            }
            .to_owned()
        }),
        kernel: wanted.kernel.clone(),
        nodes,
        choices: Choices {
            tests: wanted.test.clone(),
            allocator: match wanted.allocator {
                CopyAllocator::Malloc => Allocator::Malloc,
                CopyAllocator::Create => Allocator::Create,
                CopyAllocator::Pool => Allocator::Pool,
            },
            mapping: match wanted.mapping {
                CopyMapping::Default => MappingChoice::Default,
                CopyMapping::Wc => MappingChoice::WriteCombined,
                CopyMapping::Cache => MappingChoice::Cached,
                CopyMapping::Device => MappingChoice::Device,
            },
            offset: wanted.offset,
            iterations: wanted.iterations,
            cold: wanted.cold,
            round_trips: RoundTrips {
                producer: match wanted.producer {
                    CopyProducer::Cpu => Producer::Cpu,
                    CopyProducer::Gpu => Producer::Gpu,
                },
                flag: place(wanted.flag),
                reply: place(wanted.reply),
                data,
            },
        },
        scope,
    })
}

fn place(wanted: CopyPlace) -> MemoryLocation {
    match wanted {
        CopyPlace::Gpu => MemoryLocation::Gpu,
        CopyPlace::Host => MemoryLocation::Host,
    }
}

/// The data of ping-pong.
fn data(wanted: &CopyProbe) -> anyhow::Result<Option<DataRounds>> {
    let Some(size) = &wanted.data else {
        return Ok(None);
    };
    if !size.0.is_multiple_of(4) {
        bail!("--data {}: it is made of words of 4 bytes: use a multiple of 4", size.0);
    }
    if !wanted.test.is_empty() && wanted.test.iter().all(|test| test != "ping-pong") {
        bail!("--data needs the test ping-pong: add --test ping-pong, or omit --data");
    }
    Ok(Some(DataRounds {
        bytes: size.0,
        place: place(wanted.data_in),
        blocks: wanted.blocks,
        threads: wanted.threads,
    }))
}

/// The tests of `gdr probe copy`, with gdrcopy's names for them.
pub fn list_tests(style: Style) -> String {
    let tests = TESTS.iter().map(|test| ListedTest {
        name: test.name,
        about: test.about,
        upstream: test.upstream,
        by_default: test.by_default,
    });
    test_list(&tests.collect::<Vec<_>>(), style)
}
