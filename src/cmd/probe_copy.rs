//! Options of `gdr probe copy`, and the list of its tests.

use anyhow::bail;

use crate::cli::{CopyAllocator, CopyBackend, CopyMapping, CopyProbe};
use crate::probe::copy::{self, Allocator, Choices, MappingChoice, TESTS};
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
            bail!(
                "unknown copy kernel '{kernel}'; this machine has: {}",
                known.join(", ")
            );
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
        },
        scope,
    })
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
