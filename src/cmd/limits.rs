//! Limits of this process that are too small for gdr or for the libraries that it loads: which one, and what is needed.

use std::io;

use rustix::process::{Resource, getrlimit};

/// A limit: its name for people, how a shell sets it, and what is needed.
struct Need {
    resource: Resource,
    name: &'static str,
    option: &'static str,
    least: u64,
    /// Size of one of the shell's units.
    unit: u64,
    /// The error of a call that exceeds it.
    errno: rustix::io::Errno,
}

const STACK: Need = Need {
    resource: Resource::Stack,
    name: "the stack",
    option: "-s",
    least: 1 << 20,
    unit: 1 << 10,
    errno: rustix::io::Errno::NOMEM,
};

const FILES: Need = Need {
    resource: Resource::Nofile,
    name: "the number of open files",
    option: "-n",
    least: 256,
    unit: 1,
    errno: rustix::io::Errno::MFILE,
};

const NEEDS: [Need; 4] = [
    STACK,
    FILES,
    // CUDA reserves as much as all memory of the machine and its GPUs.
    Need {
        resource: Resource::As,
        name: "the address space",
        option: "-v",
        least: 1 << 30,
        unit: 1 << 10,
        errno: rustix::io::Errno::NOMEM,
    },
    Need {
        resource: Resource::Data,
        name: "the data segment",
        option: "-d",
        least: 1 << 30,
        unit: 1 << 10,
        errno: rustix::io::Errno::NOMEM,
    },
];

impl Need {
    /// What to say if the limit is smaller than what is needed.
    fn tight(&self) -> Option<String> {
        let limit = getrlimit(self.resource).current?;
        (limit < self.least).then(|| {
            let (now, least) = (limit / self.unit, self.least / self.unit);
            let unit = if self.unit > 1 { " KiB" } else { "" };
            let Self { name, option, .. } = self;
            format!(
                "{name} is limited to {now}{unit} (ulimit {option}), and gdr and CUDA need {least}{unit}: raise it with ulimit {option} \
                 {least} or unlimited"
            )
        })
    }
}

/// With fewer files the children that read libraries do not start, and libraries answer as if there were no GPU. 24 are enough for doctor on
/// an H200.
const FILES_TO_START: u64 = 24;

/// What keeps this program from running, or from finding the truth: a stack that overflows, too few open files.
pub fn unusable() -> Option<String> {
    let files = getrlimit(FILES.resource).current;
    let few = files.is_some_and(|files| files < FILES_TO_START);
    STACK.tight().or_else(|| few.then(|| FILES.tight())?)
}

/// All limits that are too small.
pub fn tight() -> Vec<String> {
    NEEDS.iter().filter_map(Need::tight).collect()
}

/// The limits that may be behind an error.
pub fn behind(error: &anyhow::Error) -> Vec<String> {
    let errno = error.chain().find_map(|cause| {
        let code = cause.downcast_ref::<io::Error>()?.raw_os_error()?;
        Some(rustix::io::Errno::from_raw_os_error(code))
    });
    let needs = NEEDS.iter().filter(|need| Some(need.errno) == errno);
    needs.filter_map(Need::tight).collect()
}
