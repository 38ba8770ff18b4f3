//! Lines that report no failure, whatever words are in them: settings, comments, source code (`code`), notes of a release, optional
//! parts that are not there, launchers, what a person calls expected.

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::code::is_code;

/// Patterns of clean lines that say nothing about a fault.
const NOTHING: [&str; 20] = [
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
    // A command that starts a job with variables: their values name what a failure would name.
    concat!(
        r"^\W{0,4}(?:\S*/)?(?:mpirun|mpiexec|orterun|prterun|srun)(?: \S*[^\s:.,!?])+",
        r" (?:-x|-genv|-env|--export)[ =][a-z](?:\S*[^\s:.,!?])?(?: \S*[^\s:.,!?])*$"
    ),
    // Launchers: what they say about the end of a job comes after its failure.
    r"^warning: no preset parameters were found",
    r"^default device parameters will be used",
    r"^(?:srun|slurmstepd|prun|mpirun|mpiexec|prterun|torchrun|orterun)\b.*(?:exited with exit code|cancelled at|terminat\w+|job step aborted|signal (?:6|9|15)\b)",
    r"^(?:primary job +terminated normally|mpi_abort was invoked|per user-direction, the job has been aborted)",
    // The legend of `nvidia-smi topo`.
    r"^(?:x|ok|cns|gns|tns|ns|dr|u|sys|node|phb|pxb|pix|nv#) = ",
    // The boxes of a form.
    r"^- \[[ x]\] ",
    // The notes of a release.
    concat!(
        r"^(?:[-*] )?(?:fixed|fixes|resolved|resolves|addressed|addresses|corrected) (?:an?|the|some|several|multiple|various) (?:[\w/-]+ ){0,3}",
        r"(?:issues?|bugs?|problems?|races?|crash(?:es)?|hangs?|regressions?|cases?|deadlocks?|leaks?|errors?)\b"
    ),
    // A person says that it is not a failure.
    concat!(
        r"\b(?:which|this|that|it)(?:'s| is) (?:expected|normal|by design|intended|harmless|benign|not an error|just a (?:warning|red herring))\b",
        r"|\b(?:can|may|could) (?:be )?safely (?:be )?ignored?\b"
    ),
    // What a figure means.
    r"\b(?:lower|higher|larger|smaller) (?:values?|numbers?|figures?|scores?) (?:indicates?|means?|suggests?|shows?|(?:is|are) (?:better|worse))\b",
    // A person says what they believe, not what they saw.
    r"^(?:in|to|from) my (?:best )?(?:underst\w*|knowledge)\b|^as (?:far as )?i (?:know|understand)\b|^afaik\b",
    // A diagram of messages.
    r"^\w+ ?(?:-{1,2}>>?|-x|--x)[+-]? ?\w+: ",
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
    row: Regex,
    release: Regex,
    heading: Regex,
}

/// A row of a table that a person wrote: a list of errors, not one of them.
const ROW: &str = r"^\s*\|(?: \S+(?: \S+)* \|){3,}\s*$";

/// The heading of what a release changed.
const RELEASE: &str = concat!(
    r"^(?:(?:#+|=+) ?(?:version |release )?\[?v?\d+\.\d+[\w.]*\]?(?:\W.*)?|(?:(?:#+|=+) ?)?(?:change ?logs?|release notes?|what'?s (?:new|changed)",
    r"|(?:resolved|fixed|known) issues|bug ?fixes)\b[^.]{0,60})$"
);

impl Notices {
    pub fn new() -> Result<Self, regex::Error> {
        let set = |patterns: &[&str]| RegexSetBuilder::new(patterns).unicode(false).build();
        let regex = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
        Ok(Self {
            nothing: set(&NOTHING)?,
            counters: set(&COUNTERS)?,
            message: regex(MESSAGE)?,
            row: regex(ROW)?,
            release: regex(RELEASE)?,
            heading: regex("^\\s*#+ ")?,
        })
    }

    /// What a line is, from its text and the clean text. A title may begin like a comment. `is_of_release` says whether the list
    /// that is being read says what a release changed.
    pub fn of(&self, raw: &[u8], line: &[u8], is_title: bool, is_of_release: &mut bool) -> Notice {
        if self.heading.is_match(raw) || self.release.is_match(line) {
            *is_of_release = self.release.is_match(line)
                || self.release.is_match(raw.to_ascii_lowercase().trim_ascii());
        }
        let is_change = *is_of_release && is_item(raw);
        let is_comment = is_comment(raw, is_title) && !self.message.is_match(line);
        let is_nothing = is_change || is_comment || self.row.is_match(raw);
        if is_nothing || is_code(raw) || is_code(line) || self.nothing.is_match(line) {
            return Notice::Nothing;
        }
        if self.counters.is_match(line) { Notice::Counter } else { Notice::None }
    }
}

/// True if the line is a comment of a program; a person's title may begin with the first of the signs.
fn is_comment(raw: &[u8], is_title: bool) -> bool {
    let raw = raw.trim_ascii_start();
    raw.starts_with(b"#") && !is_title
}

/// True if the line is an item of a list.
fn is_item(raw: &[u8]) -> bool {
    let raw = raw.trim_ascii_start();
    [b"- ".as_slice(), b"* ", b"\xe2\x80\xa2"].iter().any(|begin| raw.starts_with(begin))
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
            ("printf(\"unable to enable peer access from gpu %d\\n\", device);", Notice::Nothing),
            ("dev_err(dev, \"gpu has fallen off the bus\");", Notice::Nothing),
            ("raise runtimeerror(f\"{name}: no gpu direct rdma\")", Notice::Nothing),
            ("if \"fallen off the bus\" in line or line.contains(\"xid 79\")", Notice::Nothing),
            ("dmesg | grep -i 'fallen off the bus'", Notice::Nothing),
            ("systemctl restart nvidia-fabricmanager 2>/dev/null || true", Notice::Nothing),
            ("return \"gpu has fallen off the bus\";", Notice::Nothing),
            (
                "{\"nvrm: xid (pci:0000:05:00): 79, gpu has fallen off the bus.\", 79},",
                Notice::Nothing,
            ),
            ("log = \"modprobe: fatal: module nvidia-peermem not found\"", Notice::Nothing),
            ("+    pin(\"gpu has fallen off the bus\");", Notice::Nothing),
            ("| 79 | gpu has fallen off the bus | reset the node |", Notice::Nothing),
            ("| 0 nvidia a100        err! | 00000000:07:00.0 off |", Notice::None),
            ("- alert: gpuhasfallenoffthebus", Notice::Nothing),
            ("expr: dcgm_fi_dev_xid_errors == 79", Notice::Nothing),
            ("- fixed an issue where cuinit failed with error 802", Notice::Nothing),
            ("runtimeerror: nccl error in processgroupnccl.cpp:1333", Notice::None),
            ("{\"log\":\"gpu has fallen off the bus\",\"stream\":\"stdout\"}", Notice::None),
            (
                "nccl reports gpu direct rdma disabled, which is expected on this system",
                Notice::Nothing,
            ),
            ("gpu direct rdma disabled. is this expected?", Notice::None),
            ("fixed it: the gpu had fallen off the bus", Notice::None),
            ("nccl warn call to ibv_open_device failed", Notice::None),
            (
                "mpirun noticed that process rank 1 exited on signal 11 (segmentation fault)",
                Notice::None,
            ),
        ] {
            let line = line.as_bytes();
            assert_eq!(
                notices.of(line, line, false, &mut false),
                notice,
                "{}",
                line.escape_ascii()
            );
        }
        for (line, notice) in [
            ("nccl warn call to ibv_reg_mr failed", Notice::None),
            ("call to ibv_reg_mr failed before the update", Notice::Nothing),
        ] {
            let comment = format!("# {line}");
            assert_eq!(
                notices.of(comment.as_bytes(), line.as_bytes(), false, &mut false),
                notice,
                "{line}"
            );
        }
    }

    #[test]
    fn a_launch_command_is_no_failure() {
        let notices = Notices::new().expect("patterns");
        for (line, notice) in [
            (
                "+ /opt/mpi/bin/mpirun -np 2 -x ucx_tls=rc,cuda_copy -x nccl_x=not ./a -b 8",
                Notice::Nothing,
            ),
            ("srun -n 8 --export=all,nccl_p2p_disable=1 ./a", Notice::Nothing),
            ("mpirun -np 2 ./osu_bw d d", Notice::None),
            ("mpirun -np 2 ./a fails with: peer access is not supported", Notice::None),
            ("mpirun --x ucx_tls=rc hangs with two gpus.", Notice::None),
            ("mpirun was unable to find the infiniband device", Notice::None),
        ] {
            let found = notices.of(line.as_bytes(), line.as_bytes(), false, &mut false);
            assert_eq!(found, notice, "{line}");
        }
    }

    #[test]
    fn changes_of_a_release_are_no_failure() {
        let notices = Notices::new().expect("patterns");
        let mut is_of_release = false;
        for (line, notice) in [
            ("- cuinit fails with error 802", Notice::None),
            ("## v1.2.0", Notice::None),
            ("- cuinit fails with error 802", Notice::Nothing),
            ("## Log", Notice::None),
            ("- cuinit fails with error 802", Notice::None),
        ] {
            let clean = line.to_ascii_lowercase();
            let clean = clean.trim_start_matches(['#', ' ']).as_bytes();
            let found = notices.of(line.as_bytes(), clean, true, &mut is_of_release);
            assert_eq!(found, notice, "{line}");
        }
        for line in ["// the gpu has fallen off the bus in this case", "/* nccl warn */"] {
            let notice = notices.of(line.as_bytes(), line.as_bytes(), true, &mut false);
            assert_eq!(notice, Notice::Nothing, "{line}");
        }
    }
}
