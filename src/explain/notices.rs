//! Lines that report no failure, whatever words are in them: settings, comments, optional parts that are not there, launchers.

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

/// Patterns of clean lines that say nothing about a fault.
const NOTHING: [&str; 15] = [
    // Settings and lists of defaults: `ucx_info -c`, `env`.
    concat!(
        r#"^(?:export |setenv |declare -x |-x )?[a-z][a-z0-9]*(?:_[a-z0-9]+)+=(?:"[^"]*"|'[^']*'|\S*)"#,
        r"(?: [a-z][a-z0-9]*(?:_[a-z0-9]+)+=\S*)*$"
    ),
    // Parts that NCCL tries and does without.
    r"^nccl info (?:\S+ )?dlv?sym failed\b",
    r"^nccl info (?:net|coll|collnet|tuner|profiler|env|gin|rma|ras)/plugin\b.*(?:find|found|load returned|using internal)",
    r"^nccl info (?:\S+ )?(?:failed to find|could not find|no) \S*(?:plugin|symbol|tuner|profiler)\b",
    // The kernel loads a module.
    r"^[a-z0-9_-]+: (?:loading out-of-tree module|module verification failed|module license|module has bad taint)",
    r"^nvidia-nvlink: nvlink core is being initialized",
    // Launchers: what they say about the end of a job comes after its failure.
    r"^warning: no preset parameters were found",
    r"^default device parameters will be used",
    r"^(?:srun|slurmstepd|prun|mpirun|mpiexec|prterun|torchrun|orterun)\b.*(?:exited with exit code|cancelled at|terminat\w+|job step aborted|signal (?:6|9|15)\b)",
    r"^(?:primary job +terminated normally|mpi_abort was invoked|per user-direction, the job has been aborted)",
    // The legend of `nvidia-smi topo`.
    r"^(?:x|ok|cns|gns|tns|ns|dr|u|sys|node|phb|pxb|pix|nv#) = ",
    // The boxes of a form.
    r"^- \[[ x]\] ",
    // Source code that names a constant.
    concat!(
        r"^(?:case \w+:|return \w+;|\w+(?:->|\.)\w+ = \w+;|\{ \w+, \w+,",
        r"|[a-z0-9]+(?:_[a-z0-9]+){2,} = (?:0x)?[0-9a-f]+,)$"
    ),
    // How many values a test found wrong: none.
    r"^(?:# )?out of bounds values : 0\b",
    // The summary of a test run in which nothing failed.
    r"\b(?:passed: [1-9]\d*, failed: 0|[1-9]\d* passed[,;] 0 failed)\b",
];

/// Patterns of counters: their names contain words of failures.
const COUNTERS: [&str; 1] = [r"^(?:\[\d+\]: )?[a-z0-9]+(?:[_-][a-z0-9]+)+ ?[:=] ?\d+$"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// The line counts.
    None,
    /// It is a counter: its words do not count, its value may.
    Counter,
    /// Nothing in it counts.
    Nothing,
}

/// A program's message, of which a person made a comment.
const MESSAGE: &str =
    r"^(?:error|fatal|failed to|modprobe:|nvrm:|nccl warn|\w+error:)|[a-z\])](?:error|fatal): ";

pub struct Notices {
    nothing: RegexSet,
    counters: RegexSet,
    message: Regex,
}

impl Notices {
    pub fn new() -> Result<Self, regex::Error> {
        let set = |patterns: &[&str]| RegexSetBuilder::new(patterns).unicode(false).build();
        Ok(Self {
            nothing: set(&NOTHING)?,
            counters: set(&COUNTERS)?,
            message: RegexBuilder::new(MESSAGE).unicode(false).build()?,
        })
    }

    /// What a line is, from its text and the clean text. A title may begin like a comment.
    pub fn of(&self, raw: &[u8], line: &[u8], is_title: bool) -> Notice {
        let is_comment = !is_title && is_comment(raw) && !self.message.is_match(line);
        if is_comment || self.nothing.is_match(line) {
            return Notice::Nothing;
        }
        if self.counters.is_match(line) { Notice::Counter } else { Notice::None }
    }
}

/// True if the line is a comment of a program; a person's title begins like one.
fn is_comment(raw: &[u8]) -> bool {
    raw.trim_ascii_start().starts_with(b"#")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_lines_without_a_failure() {
        let notices = Notices::new().expect("patterns");
        for (line, notice) in [
            ("ucx_handle_errors=bt,freeze", Notice::Nothing),
            ("ucx_error_signals=sigill,sigsegv", Notice::Nothing),
            ("export nccl_p2p_disable=1", Notice::Nothing),
            ("nccl_p2p_disable=1 nccl_debug=info", Notice::Nothing),
            ("nccl info dlvsym failed on ibv_reg_dmabuf_mr - undefined symbol", Notice::Nothing),
            ("nccl info net/plugin: could not find: libnccl-net.so", Notice::Nothing),
            ("gdrdrv: loading out-of-tree module taints kernel.", Notice::Nothing),
            ("srun: error: gpu12: task 3: exited with exit code 1", Notice::Nothing),
            ("- [ ] bug fix", Notice::Nothing),
            ("gns = gpu not supported", Notice::Nothing),
            ("case ibv_wc_retry_exc_err:", Notice::Nothing),
            ("wc->status = ibv_wc_retry_exc_err;", Notice::Nothing),
            ("ibv_wc_retry_exc_err = 12,", Notice::Nothing),
            ("wc.status = ibv_wc_retry_exc_err (12), vendor error 129", Notice::None),
            ("total: 32, passed: 31, failed: 0, waived: 1", Notice::Nothing),
            ("test result: ok. 12 passed; 0 failed; 0 ignored", Notice::Nothing),
            ("total: 32, passed: 30, failed: 2, waived: 0", Notice::None),
            ("total: 32, passed: 0, failed: 0, waived: 32", Notice::None),
            ("local_ack_timeout_err: 0", Notice::Counter),
            ("rx_prio3_discards: 48211", Notice::Counter),
            ("nccl_p2p_disable=1 fixes the hang", Notice::None),
            ("cuda error: 803", Notice::None),
            ("nccl warn call to ibv_open_device failed", Notice::None),
            (
                "mpirun noticed that process rank 1 exited on signal 11 (segmentation fault)",
                Notice::None,
            ),
        ] {
            let line = line.as_bytes();
            assert_eq!(notices.of(line, line, false), notice, "{}", line.escape_ascii());
        }
        for (line, notice) in [
            ("nccl warn call to ibv_reg_mr failed", Notice::None),
            ("call to ibv_reg_mr failed before the update", Notice::Nothing),
        ] {
            let comment = format!("# {line}");
            assert_eq!(notices.of(comment.as_bytes(), line.as_bytes(), false), notice, "{line}");
        }
    }
}
