//! Lines of source code, scripts, patches and rules that hold or look for a message: they report no failure.

use std::sync::LazyLock;

use memchr::memmem;
use regex::bytes::{RegexSet, RegexSetBuilder};

/// Patterns of lines without their indentation, in any case.
const CODE: [&str; 6] = [
    // A constant.
    concat!(
        r"^(?:case \w+:|return \w+;|\w+(?:->|\.)\w+ = \w+;|\{ \w+, \w+,",
        r"|[a-z0-9]+(?:_[a-z0-9]+){2,} = (?:0x)?[0-9a-f]+,)$"
    ),
    // Code that prints or compares a message.
    concat!(
        r"\b(?:v?[fs]?n?printf|printk|pr_(?:err|warn|info|debug|notice|crit)\w*|(?:net)?dev_(?:err|warn|info|dbg|notice)\w*|strformat|strcat|perror)\(",
        r"|\bstd::c(?:err|out|log)\b|\bthrow (?:new |std::)|\braise [a-z_.]*(?:error|exception)\(|\bfmt\.(?:errorf|[fs]?printf|println)\(",
        r"|\b(?:console|log|logger|logging|slog|klog|glog|syslog)\.(?:error|warn|warning|info|debug|fatal|critical|log|print|exception)\w*\("
    ),
    concat!(
        r#"\b(?:\w+_(?:err|error|warn|warning|log|msg|fail)|log|warn|info|fatal|die|panic|bail|anyhow|e?println?|echo|format|expect|tocontain|tomatch|contains|includes|indexof|startswith|"#,
        r#"mustcompile|compile|search|findall|grepl?)!?\([rfb]?["'/]"#
    ),
    // Code that holds a message. An object in JSON is a program's line.
    r#"^(?:[+-] ?)?(?:\w[\w.:&* ]* :?= [rfb]?["'].*["'][,;]?|return [rfb]?["'].*|\{ ?(?:"[^"]*"|'[^']*'),.*\},?|"[^"]*",|'[^']*',)$"#,
    // A script, and a rule that looks for a message.
    r"[ &]2?> ?/dev/null|\|\| true\b|; then$|; do$|^(?:fi|done|esac|else|endif)\b;?$|\$\(\w|\$\{\w|^echo |^e?grep [^:]*$|\| ?(?:e?grep|awk|sed|jq|xargs|tee)\b[^:]*$",
    r#"^(?:- )?["']?(?:expr|alert|pattern|regex|regexp|record)["']?: "#,
];

static PATTERNS: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSetBuilder::new(CODE).unicode(false).case_insensitive(true).build().ok());

/// True if a line is code, a comment of code, or part of a patch or script. A traceback in one line has code and is a message: what stands
/// around it decides.
pub fn is_code(line: &[u8]) -> bool {
    match traceback(line) {
        Some(at) => {
            let end = line.trim_ascii_end();
            let closing = end.iter().rev().take_while(|byte| b"\"',;)}]".contains(byte)).count();
            is_code_alone(&[&line[..at], HEADING, &end[end.len() - closing..]].concat())
        }
        None => is_code_alone(line),
    }
}

/// Begins a traceback of Python, without its first letter: the line may be in lower case.
const HEADING: &[u8] = b"raceback (most recent call last)";

/// True if a line holds a traceback with its frames.
pub fn is_traceback(line: &[u8]) -> bool {
    traceback(line).is_some()
}

/// Where the heading of a traceback stands that has its frames in the same line.
fn traceback(line: &[u8]) -> Option<usize> {
    let at = memmem::find(line, HEADING)?;
    memmem::find(&line[at..], b", line ").map(|_| at)
}

fn is_code_alone(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let is_comment = text.starts_with(b"//") || text.starts_with(b"/*");
    is_comment || is_patch(line) || PATTERNS.as_ref().is_some_and(|code| code.is_match(text))
}

/// True if the text before a program's message is not that of a log only, so that the line may be code. It costs less than [`is_code`].
pub fn may_be_code(before: &[u8]) -> bool {
    let start = before.trim_ascii_start();
    let begins = |texts: &[&[u8]]| texts.iter().any(|text| start.starts_with(text));
    let is_begun = match start.first() {
        Some(b'/') => begins(&[b"//", b"/*"]),
        Some(b'+' | b'-') => true,
        Some(b'e') => begins(&[b"echo "]),
        _ => false,
    };
    // A few bytes, for which a search costs more than it saves.
    is_begun || start.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'(' | b'$'))
}

/// True if the line is indented code of a patch.
fn is_patch(line: &[u8]) -> bool {
    let code = line.strip_prefix(b"+").or_else(|| line.strip_prefix(b"-"));
    code.is_some_and(|code| code.starts_with(b"    ") || code.starts_with(b"\t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_no_log() {
        for (line, expected) in [
            ("error = \"NCCL WARN Bootstrap : no socket interface found\"", true),
            ("  const char *m = \"NCCL WARN Call to ibv_reg_mr failed\";", true),
            ("printf(\"gpu1:1:2 [0] NCCL WARN Bootstrap : no socket interface found\\n\");", true),
            ("+    WARN(\"NET/IB : Got completion from peer\");", true),
            ("// NCCL WARN Duplicate GPU detected", true),
            ("grep -q \"NCCL WARN\" job.log && exit 1", true),
            ("echo \"gpu1:1:2 [0] NCCL WARN Bootstrap : no socket interface found\"", true),
            ("if (line.contains(\"NCCL WARN\")) {", true),
            ("    \"NCCL WARN Cuda failure 'out of memory'\",", true),
            ("  \"NCCL WARN Duplicate GPU detected\",", true),
            ("case IBV_WC_RETRY_EXC_ERR:", true),
            ("{\"GPU has fallen off the bus\", 79},", true),
            ("{\"log\":\"GPU has fallen off the bus\",\"stream\":\"stdout\"}", false),
            (
                "{\"level\":\"error\",\"msg\":\"NCCL WARN Bootstrap : no socket interface found\"}",
                false,
            ),
            ("level=error msg=\"NCCL WARN Bootstrap : no socket interface found\"", false),
            ("gpu1:1:2 [0] NCCL WARN Cuda failure 'invalid argument'", false),
            ("(RayWorker pid=7) gpu1:1:2 [0] NCCL INFO Using network IB", false),
            ("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:275", false),
            (
                "Traceback (most recent call last): File \"a.py\", line 3, in f raise KeyError(\"x\") KeyError: 'x'",
                false,
            ),
            (
                "{\"log\":\"Traceback (most recent call last):\\n  File \\\"a.py\\\", line 3, in f\\n    raise E(\\\"x\\\")\\nKeyError: 'x'\"}",
                false,
            ),
            (
                "expected = \"Traceback (most recent call last): File 'a.py', line 3, in f raise E('x') KeyError: 'x'\"",
                true,
            ),
        ] {
            assert_eq!(is_code(line.as_bytes()), expected, "{line}");
            if let Some(at) = line.find("NCCL").filter(|_| expected) {
                assert!(may_be_code(&line.as_bytes()[..at]), "{line}");
            }
        }
        assert!(!may_be_code(b"gpu1:1:2 [0] "));
    }
}
