//! Chooses kernels: the named one, else the measured one, else the default of this CPU.

use std::env;
use std::ffi::{OsStr, OsString};

use super::kernel::{Kernel, kernel};
use super::pool::{Budget, MAX_THREADS};
use super::{arch, tune};

/// Invalid `GDR_COPY_KERNEL`, `GDR_COPY_THREADS` or `GDR_COPY_SPIN_US`, or a kernel that the CPU does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Unknown kernel name.
    #[error("invalid GDR_COPY_KERNEL: {value:?}; must be one of {known}")]
    UnknownKernel {
        /// Value of the variable.
        value: OsString,
        /// Valid names, separated by commas.
        known: String,
    },
    /// The CPU does not support the kernel's instructions.
    #[error(
        "this CPU cannot run the copy kernel {name}; name another in GDR_COPY_KERNEL, or unset it"
    )]
    KernelUnsupported {
        /// Kernel name.
        name: &'static str,
    },
    /// Invalid number of threads.
    #[error("invalid GDR_COPY_THREADS: {value:?}; must be 1 to {MAX_THREADS}")]
    Threads {
        /// Value of the variable.
        value: OsString,
    },
    /// Invalid polling time.
    #[error("invalid GDR_COPY_SPIN_US: {value:?}; must be 0 to {LONGEST_SPIN_US}")]
    Spin {
        /// Value of the variable.
        value: OsString,
    },
}

/// Longest time that helpers may poll, in microseconds.
const LONGEST_SPIN_US: u64 = 10_000;

/// Kernels for both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) write: &'static Kernel,
    pub(super) read: &'static Kernel,
}

/// Kernels for write-combining mappings, and the threads and CPU time that a copy may use.
pub(super) fn from_environment() -> Result<(Choice, Budget), Error> {
    let budget = budget(|name| env::var_os(name).filter(|value| !value.is_empty()))?;
    Ok((named()?.or_else(tune::known).unwrap_or_else(unmeasured), budget))
}

/// Kernel named by `GDR_COPY_KERNEL`.
pub(super) fn named() -> Result<Option<Choice>, Error> {
    parse(env::var_os("GDR_COPY_KERNEL").as_deref())
}

/// Default kernels, neither measured nor named.
pub(super) fn unmeasured() -> Choice {
    let (writes, reads) = arch::preferred();
    let first = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| kernel(name));
        found.find(|kernel| kernel.supported()).unwrap_or(plainest())
    };
    Choice { write: first(writes), read: first(reads) }
}

/// Kernel that is correct on every CPU and every mapping.
pub(super) fn plainest() -> &'static Kernel {
    &arch::KERNELS[0]
}

fn parse(value: Option<&OsStr>) -> Result<Option<Choice>, Error> {
    // Shells export empty variables.
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let Some(kernel) = value.to_str().and_then(kernel) else {
        let known: Vec<_> = arch::KERNELS.iter().map(Kernel::name).collect();
        return Err(Error::UnknownKernel { value: value.to_owned(), known: known.join(", ") });
    };
    if !kernel.supported() {
        return Err(Error::KernelUnsupported { name: kernel.name });
    }
    Ok(Some(Choice { write: kernel, read: kernel }))
}

/// Budget from variables; shells export empty ones, which `variable` leaves out.
fn budget(variable: impl Fn(&str) -> Option<OsString>) -> Result<Budget, Error> {
    let threads = match variable("GDR_COPY_THREADS") {
        Some(value) => number(&value)
            .filter(|threads| (1..=MAX_THREADS as u64).contains(threads))
            .ok_or(Error::Threads { value })? as usize,
        // A program with this limit has other threads or processes for the other CPUs. A list
        // begins with the number of the outermost level. What OpenMP would ignore, is ignored.
        None => ["OMP_NUM_THREADS", "OMP_THREAD_LIMIT"]
            .iter()
            .filter_map(|name| number(variable(name)?.to_str()?.split(',').next()?.as_ref()))
            .filter(|threads| *threads != 0)
            .fold(MAX_THREADS, |most, threads| most.min(threads as usize)),
    };
    let spin = variable("GDR_COPY_SPIN_US").map(|value| {
        number(&value).filter(|time| *time <= LONGEST_SPIN_US).ok_or(Error::Spin { value })
    });
    Ok(Budget {
        threads,
        // 0 asks for what is the default.
        spin: spin.transpose()?.filter(|time| *time != 0).map(|time| time * 1000),
    })
}

fn number(value: &OsStr) -> Option<u64> {
    value.to_str()?.trim_ascii().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_kernel_name() {
        assert!(parse(None).expect("no name").is_none());
        assert!(parse(Some(OsStr::new(""))).expect("no name").is_none());
        let choice = parse(Some(OsStr::new("portable"))).expect("a name").expect("a choice");
        assert_eq!((choice.write.name(), choice.read.name()), ("portable", "portable"));
    }

    #[test]
    fn unknown_name_lists_valid_names() {
        let error =
            parse(Some(OsStr::new("Portable"))).expect_err("names are lower case").to_string();
        assert!(error.contains("\"Portable\"") && error.contains("one of portable"), "{error}");
    }

    #[test]
    fn rejects_unsupported_kernel() {
        for kernel in arch::KERNELS {
            let parsed = parse(Some(OsStr::new(kernel.name)));
            assert_eq!(parsed.is_ok(), kernel.supported(), "{}", kernel.name);
        }
    }

    #[test]
    fn parses_budget() {
        let of = |pairs: &[(&str, &str)]| {
            budget(|name| {
                let pair = pairs.iter().find(|(key, _)| *key == name);
                pair.map(|(_, value)| OsString::from(*value))
            })
        };
        let threads = |pairs: &[(&str, &str)]| of(pairs).expect("a budget").threads;
        assert_eq!(of(&[]), Ok(Budget::saving(16)));
        assert_eq!(threads(&[("GDR_COPY_THREADS", "1")]), 1);
        assert_eq!(threads(&[("OMP_NUM_THREADS", "4")]), 4);
        assert_eq!(threads(&[("OMP_NUM_THREADS", " 6 ,3")]), 6);
        assert_eq!(threads(&[("OMP_NUM_THREADS", "8"), ("OMP_THREAD_LIMIT", "2")]), 2);
        assert_eq!(threads(&[("OMP_NUM_THREADS", "many"), ("OMP_THREAD_LIMIT", "0")]), 16);
        assert_eq!(threads(&[("GDR_COPY_THREADS", "16"), ("OMP_NUM_THREADS", "2")]), 16);
        for wrong in ["0", "17", "-1", "two", "1.5"] {
            assert!(of(&[("GDR_COPY_THREADS", wrong)]).is_err(), "{wrong}");
        }
        let spin = |value| of(&[("GDR_COPY_SPIN_US", value)]).map(|budget| budget.spin);
        assert_eq!(spin("2000"), Ok(Some(2_000_000)));
        assert_eq!(spin("0"), Ok(None));
        for wrong in ["10001", "-1", "long"] {
            assert!(spin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn default_kernels_run_here() {
        let Choice { write, read } = unmeasured();
        assert!(write.supported() && read.supported() && !write.named_only() && !read.named_only());
    }
}
