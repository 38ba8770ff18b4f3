//! General questions: a text that asks what something is or whether it is possible reports no failure, so it has no cause.

use regex::bytes::{Regex, RegexBuilder};

/// How a general question begins. "Why" asks for the cause of a failure.
const BEGINNING: &str = concat!(
    r"(?:\[?question\]?:? |hi,? |hello,? )*",
    r"(?:what(?:'s| is| are| does| do the| do these| happens| would)\b",
    r"|how (?:do|does|can|could|should|to|large|big|much|many|often|is|are)\b",
    r"|questions? (?:about|on|regarding|for)\b|which\b|when (?:do|does|is|are|should)\b|where (?:is|are|does|do|can)\b|who\b",
    r"|(?:is|are|does|do|can|could|should)\b",
    r"|why (?:is|are) \S+ not the default)",
);

/// Words with which people report a failure, and beginnings of programs' messages.
const REPORT: &str = concat!(
    r"\b(?:my|our|got|get|getting|see|seeing|saw|still|fail(?:s|ed|ing|ure)?|errors?|hangs?|hung|stuck|crash\w*|slow\w*|broken",
    r"|wrong|fix\w*|solv\w*|resolv\w*|debug\w*|repair\w*|troubleshoot\w*|problems?|issues?|cannot|can.?t|could ?n.?t|unable",
    r"|does ?n.?t|did ?n.?t|do ?n.?t|is ?n.?t|are ?n.?t|wo ?n.?t|not work\w*|not found|no such|instead|despite|although|but",
    r"|(?:can|could|do|does|did|is|are|was|will|may) not|nccl (?:info|warn)|ucx +(?:warn|error|diag)|nvrm",
    r"|warn\w*|refus\w*|timed? ?out|timeout|returned|denied|invalid|aborted)\b",
);

/// Words without which a person's sentence reports nothing: what is missing, refused, slow, wrong or stuck, or what helped against it.
const FAULT: &str = concat!(
    r"\b(?:fail\w*|err(?:ors?|no)?|hang\w*|hung|stuck|freez\w*|froze\w*|dead ?lock\w*|lock(?:s|ed)? up|crash\w*|abort\w*|kill(?:s|ed)|panic\w*|segv|seg\w* ?fault\w*|fault\w*|e(?:fault|inval|nomem|perm|acces|again|io|nodev|nxio|opnotsupp|protonosupport|timedout)|returns? -?\d+",
    r"|slow\w*|low|lower than|poor\w*|bad(?:ly)?|worse|degrad\w*|half|drop\w*|only \d\S*|limited to|wrong\w*|incorrect\w*|corrupt\w*|garbage|nan|stale|zeros?|ha(?:s|ve) no|mismatch\w*|differ\w*|broken|breaks?|broke",
    r"|lost|loses?|lack\w*|missing|absent|disappear\w*|gone|unavailable|unable|unsupported|unknown|undefined|unexpected\w*|unstable|inactive|disabled|down|never|nothing|without",
    r"|refus\w*|reject\w*|den(?:y|ies|ied)|invalid|illegal|prevent\w*|block(?:s|ed)|skip\w*|ignor\w*|exceed\w*|full|time(?:s|d)? ?out|timeouts?|retr(?:y|ies|ied)|warn\w*|problem\w*|issues?|trouble\w*|bugs?",
    r"|fallen|fell|falls?|fix\w*|solv\w*|resolv\w*|help(?:s|ed)|work ?arounds?|why|instead|but|no longer|no (?:such|\S+ )?(?:devices?|gpus?|nics?|driver|module|memory|route|response)|xid|not",
    r"|can ?not|can.?t|could ?n.?t|does ?n.?t|did ?n.?t|do ?n.?t|is ?n.?t|are ?n.?t|was ?n.?t|were ?n.?t|wo ?n.?t|has ?n.?t|have ?n.?t)\b",
);

/// How advice begins: it names a failure that need not have happened.
const ADVICE: &str = concat!(
    r"^(?:[-*] )?(?:if|in case|when(?:ever)?) you (?:ever )?(?:get|see|encounter|run into|hit|face|experience|receive|run out)\b",
    r"|\b(?:to|helps? (?:to )?|can) avoid (?:an? |the )?\S*(?:cuda|gpu|out of memory|oom)\b",
);

/// How a manual describes what happens in a case that need not be this one.
const RULE: &str = concat!(
    r"^(?:[-*] )?(?:note that |also, )?if (?:the|an?|any|your|no) [^?.]*\b(?:can ?not|can't|fails?|is not|isn't|does not|doesn't|do not)\b",
    r"[^?.]*,? (?:it|they|the|this|you|that|users?|then) [^?.]*\b(?:will|should|must|may|has to|have to|needs? to)\b",
);

pub struct General {
    first: Regex,
    /// After other sentences a question needs its question mark.
    later: Regex,
    report: Regex,
    advice: Regex,
    rule: Regex,
    fault: Regex,
}

impl General {
    pub fn new() -> Result<Self, regex::Error> {
        let regex = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
        Ok(Self {
            first: regex(&format!("^{BEGINNING}"))?,
            later: regex(&format!(r"[.!?] {BEGINNING}[^.!]*\?"))?,
            report: regex(REPORT)?,
            advice: regex(ADVICE)?,
            rule: regex(RULE)?,
            fault: regex(FAULT)?,
        })
    }

    /// True if a clean line is such a question.
    pub fn is_question(&self, line: &[u8]) -> bool {
        (self.first.is_match(line) || self.later.is_match(line)) && !self.is_report(line)
    }

    /// True if a clean line, a sentence, is advice.
    pub fn is_advice(&self, line: &[u8]) -> bool {
        self.advice.is_match(line)
    }

    /// True if a clean line, a person's, has a word for a fault.
    pub fn names_fault(&self, line: &[u8]) -> bool {
        self.fault.is_match(line)
    }

    /// True if a clean line, a sentence, says what happens if something fails.
    pub fn is_rule(&self, line: &[u8]) -> bool {
        self.rule.is_match(line)
    }

    /// True if a clean line reports a failure, or is a program's message.
    pub fn is_report(&self, line: &[u8]) -> bool {
        self.report.is_match(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_not_reports() {
        let general = General::new().expect("patterns");
        for (line, expected) in [
            ("what do the imex states mean?", true),
            ("is gpudirect rdma supported on this geforce?", true),
            ("what happens when the gpu has fallen off the bus?", true),
            ("how large must /dev/shm be for eight ranks?", true),
            ("what does gpu direct rdma disabled mean?", true),
            ("i read about mnnvl. what is an imex channel?", true),
            ("nccl info net/ib : gpu direct rdma disabled for hca 0. what is that?", false),
            ("why is gpu direct rdma disabled for hca 0", false),
            ("how do i fix ibv_reg_mr failed: bad address?", false),
            ("does anybody see the same error with nvidia-peermem?", false),
            ("can nccl use gdr on my machine, it is disabled", false),
            ("nccl warn call to ibv_reg_mr failed", false),
            ("exiting.. can not change: incorrect namespace", false),
            ("leaving. is required by another module", false),
            ("is not supported by the driver: cannot map", false),
        ] {
            assert_eq!(general.is_question(line.as_bytes()), expected, "{line}");
        }
    }
}
