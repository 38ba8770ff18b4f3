//! Whether words of a person report a failure that happened. A request, a design, a manual and a condition do not: what they name
//! is possible only. A program's message reports its failure, except in a text that describes a change or asks for one.

use regex::bytes::{Regex, RegexBuilder};

use super::general::General;

/// How the title of a change, a request, a question or a manual begins.
const DESIGN: &str = concat!(
    r"^(?:#+ )?(?:\[[^\]]{0,20}\] ?)*(?:(?:feat|fix|docs?|chore|refactor|perf|test|build|ci|style|revert)(?:\([^)]*\))?!?: ",
    r"|\[?(?:feature|feat|enhancement|rfc|proposal|docs?|documentation|design|wip|error scenario)\b[^a-z]",
    r"|(?:feature request|how[- ]to|a (?:quick )?guide|guide|checklist)\b|please (?:add|support|evaluate) ",
    r"|(?:add(?:ed|ing|s)?|support (?:for|of)|document(?:s|ing)?|improve|implement|introduce|allow|expose|extend|refactor|bump|propos(?:e|al)",
    r"|fail fast|alert|detect(?:ing)?|handle|monitor|warn|notify|suppress|avoid|prevent) )",
    r"|\[(?:feature|feat|enhancement|rfc|proposal|docs?)\]",
    r"|\b(?:release notes|known (?:issues|limitations)|change ?log|user (?:guide|manual)|troubleshooting (?:guide|checklist)|checklist|runbook|faq)\b",
);

/// How a text begins that describes a change, or asks for one.
const CHANGE_TITLE: &str = concat!(
    r"^\W{0,3}(?:(?:feature(?: request)?|feat|rfc|proposal|design|docs?|enhancement|wip|draft|roadmap|epic|backport)\s?[\]:)]",
    r"|feature request\b|\w+\]\[(?:fix|feat|docs?|infra|chore|tests?|refactor|perf)\]|(?:feat|fix|docs?|chore|refactor|perf|ci|build|tests?|style|revert)(?:\([^)]*\))?!?: )",
);

/// Sentences and headings of such a text.
const CHANGE: &str = concat!(
    r"\b(?:this|these|the) (?:pr|pull request|patch|commit|changes?|mr|merge request|series)\b.{0,20}",
    r"\b(?:adds?|changes?|introduces?|enables?|fix(?:es)?|makes?|updates?|promotes?|removes?|replaces?|implements?|improves?|allows?|moves?|extends?|modif(?:y|ies)|address(?:es)?)\b",
    r"|^what does this pr do|^(?:type of change|test plan|how has this been tested|describe the solution|describe alternatives|summary by coderabbit)\b",
    r"|^\W{0,3}(?:issue #, if available|description of changes|by submitting this pull request|where should the reviewer start|fixes #\d+$)",
    r"|^is your feature request|\bfeature,? motivation\b|\bthis is a (?:feature|proposal|design)\b",
    r"|\bit (?:would|will) be (?:nice|great|good|useful|helpful|awesome) (?:if|to)\b",
);

/// How the title of a question or of a change begins. One that names a fault may be a report.
const QUESTION: &str = concat!(
    r"^(?:#+ )?\[?(?:(?:question|query|discussion|help)\b[^a-z]|questions? (?:about|on|regarding)\b|(?:is|are|does|do|can|could|should|will|would)\b",
    r"|what(?:'s| is| are| does)\b|which\b|how (?:do|does|can|to|should)\b",
    r"|(?:update|enable|use|install|set|validate|re-?enable|remove|replace|switch|make|maybe|evaluate|skip|fall ?back|mark|log|print|show|check|verify) )",
);

/// Headings and sentences of a request or a design.
const REQUEST: &str = concat!(
    r"^(?:#+ |\*\*)?(?:feature (?:summary|description|request|, motivation)|proposed (?:solution|implementation|change)|proposal|motivation|acceptance criteria",
    r"|describe the solution you'd like|problem & motivation|problem/use case|user stor(?:y|ies)|non-goals)\b",
    r"|\bis your feature request related\b|\bdescribe the solution you'd like\b",
);

/// How a line of a program begins.
const MESSAGE: &str = concat!(
    r"^(?:\S*nvrm\b|nccl (?:info|warn|version)|ucx +(?:warn|error|diag|info|debug)|(?:fatal|error|warning|modprobe|insmod|rmmod|traceback|assertion)\b",
    r"|[\w./+-]+(?:\[\d+\]|\([^ )]*\))?: |[\[(|<{$0-9]|\S+/\S+",
    r"|.?nvidia-smi has failed|cuda (?:failure|error|driver version)|file register error|(?:failed to|couldn.?t|could not|cannot|unable to|no such)\b)",
);

/// What persons seldom write: programs' names, numbers and places.
const INNER: &str = r"\b0x[0-9a-f]+|\w::\w|[=:]-?\d|\b[\w-]+\.(?:cc?|cpp|cu|h|py|go|rs):\d+";

/// What persons put before a sentence, as programs do.
const LABEL: &str = r"^(?:issue|problem|note|notes|edit|update|summary|cause|question|q|a|query|title|bug|expected|actual|description|behaviou?r|symptoms?|workaround|reason|observed|expected behavior|result|keywords?|requirements?|limitations?|goal|impact|background|scope|triggers?|context|purpose|prerequisites?|overview|severity|owner|setup|environment|hypothesis|tip|details?|example|(?:proposed )?(?:fix|solution)|resolution|steps?|runbook|checklist): ";

/// A person speaks of what happened to them.
const PERSON: &str = concat!(
    r"\b(?:i|i'm|i've|i'd|im|my|me|our|ours)\b",
    r"|\bwe(?:'re|'ve)?(?: \w+)? (?:are|were|have|had|has|got|get|see|saw|use|used|run|ran|tried|try|found|find|notic\w+|observ\w+|encounter\w*|hit|experienc\w+|fac\w+|met|can ?not|can't|could|did|do|operate\w*|test\w*|deploy\w*|start\w*|install\w*)\b",
    r"|我|俺",
);

/// A condition that contains the failure.
const CONDITION: &str = concat!(
    r"\b(?:if|unless|in case|whenever|in the event)\b[^,.;:]{0,80}\b(?:fail\w*|can ?not|can't|not|isn't|aren't|doesn't|don't|missing|down|disabled|hangs?|crash\w*|falls?|lost|unavailable|errors?|degrades?|drops?)\b",
    r"|\bwhen (?:an?|the|any|one|some|your)\b[^,.;:]{0,60}\b(?:fails?|degrades?|falls?|goes|hangs?|is (?:lost|down|missing|disabled)|detects?)\b",
);

/// What may happen, or must be so, or is so in general.
const GENERAL: &str = concat!(
    r"\b(?:may|might|would|could (?:be|lead|cause|fail|result|happen|occur)|can (?:be|lead|cause|fail|result|happen|occur|also|silently|prevent|block|hang|drop|degrade|trigger)",
    r"|must|shall|should (?:be|match|have)|ha(?:s|ve) to|needs? to|requirements?|you(?:'ll| will| can| should| need| must)",
    r"|typically|usually|generally|in general|for example|in some cases|in rare cases|to be deprecated)\b|\be\.g\.",
    r"|\b(?:would be (?:nice|good|great|useful|helpful)|it is (?:required|recommended|important|necessary)|this (?:pr|patch|series|change|commit|guide|page|section|document|rfc|proposal)\b)",
    r"|^(?:[-*] )?(?:adds?|added|address(?:es)?|detect(?:s|ing)?|handles?|improves?|introduces?|implements?|documents?|fail fast|fall(?:s|ing)? ?back|suppress(?:es)?|propos(?:e|es|al)",
    r"|rather than|make sure|ensure|verify|be sure|note that|please (?:ensure|make sure|refer|see|note|add|support|consider))\b",
);

/// What should or would happen, what usually is the cause, what somebody wonders about: it need not have happened.
const SUPPOSED: &str = concat!(
    r"\b(?:should|must|shall|ought to) (?:not |never |also |just |instead |always |rather )*",
    r"(?:fail|warn|report|error|refuse|reject|detect|raise|return|print|read|check|support|allow|expose|log)\b",
    r"|\bwould (?:not |also |then |still |silently |never )*(?:fail|hang|get|invite|return|crash|need|require)\b",
    r"|\bwe (?:should|may want to|plan to)\b|\bwondering (?:if|whether) (?:we|you|it|there|this|that)\b",
    r"|\bcommon (?:causes?|reasons?|problems?|pitfalls?|issues?|mistakes?|culprits?|errors?)\b",
    r"|\b(?:cause|reason|culprit) is (?:rarely|often|usually|typically|mostly|commonly|always|almost)\b",
);

/// Tells a reader what will happen to them: advice in the whole line.
const ADVISES: &str =
    r"\byou(?:'ll| will) (?:run into|need|have to|get|encounter|hit|lose|not|also)\b";

/// A question to which the answer is yes or no.
const ASKS: &str =
    r"^(?:[-*] |\d+[.)] )?(?:does|do|is|are|can|could|will|would|has|have|should)\b[^?]*\?";

pub struct Words {
    design: Regex,
    change_title: Regex,
    change: Regex,
    question: Regex,
    request: Regex,
    message: Regex,
    inner: Regex,
    label: Regex,
    person: Regex,
    condition: Regex,
    general: Regex,
    supposed: Regex,
    advises: Regex,
    asks: Regex,
    end: Regex,
}

/// What a match rests on, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// A program's message.
    Message,
    /// A person's words: they count in a text that reports a failure.
    Words,
    /// Words that report none.
    Possible,
}

/// What the lines read so far are.
#[derive(Debug, Default, Clone, Copy)]
pub struct Voice {
    lines: usize,
    sentences: usize,
    /// The text describes a change, or asks for one.
    is_change: bool,
    is_design: bool,
    reports: bool,
}

impl Words {
    pub fn new() -> Result<Self, regex::Error> {
        let regex = |pattern: &str| RegexBuilder::new(pattern).unicode(false).build();
        Ok(Self {
            design: regex(DESIGN)?,
            change_title: regex(CHANGE_TITLE)?,
            change: regex(CHANGE)?,
            question: regex(QUESTION)?,
            request: regex(REQUEST)?,
            message: regex(MESSAGE)?,
            inner: regex(INNER)?,
            label: regex(LABEL)?,
            person: regex(PERSON)?,
            condition: regex(CONDITION)?,
            general: regex(GENERAL)?,
            supposed: regex(SUPPOSED)?,
            advises: regex(ADVISES)?,
            asks: regex(ASKS)?,
            end: regex(r"[.!?;] ")?,
        })
    }

    /// True if a clean line, which had no time and no process, is a person's.
    pub fn are_in(&self, line: &[u8], sentence: bool) -> bool {
        let is_message = self.message.is_match(line) || !sentence && self.inner.is_match(line);
        !is_message || self.label.is_match(line) || self.design.is_match(line)
    }

    /// The line without the sentences that report nothing that happened; none if all of it counts.
    pub fn happened(&self, line: &[u8]) -> Option<Vec<u8>> {
        if self.advises.is_match(line) {
            return Some(Vec::new());
        }
        let mut kept = Vec::new();
        let mut start = 0;
        let ends = self.end.find_iter(line).map(|found| found.end());
        for end in ends.chain([line.len()]) {
            let sentence = line.get(start..end).unwrap_or_default();
            let is_general = [&self.general, &self.supposed, &self.condition, &self.asks];
            let is_general = is_general.iter().any(|pattern| pattern.is_match(sentence));
            if !is_general || self.person.is_match(sentence) {
                kept.extend_from_slice(sentence);
            }
            start = end;
        }
        (kept.len() < line.len()).then_some(kept)
    }
}

impl Voice {
    /// Reads a clean line. True if its words are a person's.
    pub fn read(
        &mut self,
        words: &Words,
        general: &General,
        line: &[u8],
        printed: bool,
        sentence: bool,
    ) -> bool {
        let is_title = self.lines == 0;
        self.lines += 1;
        self.sentences += usize::from(sentence);
        let are_words = !printed && words.are_in(line, sentence);
        let is_question = || words.question.is_match(line) && !general.names_fault(line);
        let is_design = is_title && !printed && (words.design.is_match(line) || is_question());
        self.is_change |= !printed
            && (is_title && words.change_title.is_match(line) || words.change.is_match(line));
        self.is_design |= is_design || are_words && words.request.is_match(line);
        self.reports = self.reports
            || are_words && !is_title && words.person.is_match(line)
            || (is_title || !are_words) && !is_design && general.names_fault(line);
        are_words
    }

    /// From which basis on nothing is more than possible: in a text that describes a change or asks for one, messages are of what
    /// would be, or was; in one that describes, requests or advises, words report no failure.
    pub fn possible_from(&self) -> Basis {
        if self.is_change {
            Basis::Message
        } else if self.is_design || !self.reports && self.sentences > 1 {
            Basis::Words
        } else {
            Basis::Possible
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Matcher, shipped};
    use super::*;
    use crate::model::Likelihood;

    fn words() -> Words {
        Words::new().expect("patterns")
    }

    #[test]
    fn conditions_and_rules_did_not_happen() {
        let words = words();
        for (line, expected) in [
            ("the gpu has fallen off the bus", None),
            ("if the module is not loaded, gpudirect rdma does not work", Some("")),
            (
                "it broke. the driver may fail to load with secure boot. it hangs",
                Some("it broke. it hangs"),
            ),
            ("if i load the module, it fails", None),
            ("once you change it you will get error 12. bad address", Some("")),
            ("it works if nccl_p2p_disable=1 is set", None),
            ("the plugin should fail if a device lacks its node", Some("")),
            ("a common cause is gdr that is not enabled", Some("")),
            ("the busbw should exceed 400 gb/s and is 64", None),
            ("gpu direct rdma is disabled, why?", None),
        ] {
            let kept = words.happened(line.as_bytes());
            let kept = kept.map(|kept| String::from_utf8(kept).expect("text"));
            assert_eq!(kept.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn messages_are_not_words() {
        let words = words();
        for (line, expected) in [
            ("nvrm: gpu 0000:05:00.0: gpu has fallen off the bus.", false),
            ("modprobe: error: could not insert 'nvidia'", false),
            ("rdma_bw.c:12 wrong", false),
            ("problem: the gpu is gone", true),
            ("feat(xid): handle a gpu that is lost", true),
            ("the gpu is gone", true),
        ] {
            assert_eq!(words.are_in(line.as_bytes(), false), expected, "{line}");
        }
    }

    #[test]
    fn designs_and_manuals_report_nothing() {
        let words = words();
        let general = General::new().expect("patterns");
        let describes = |lines: &[&str]| {
            let mut voice = Voice::default();
            for line in lines {
                voice.read(&words, &general, line.as_bytes(), false, true);
            }
            voice.possible_from() < Basis::Possible
        };
        assert!(describes(&["feat(xid): handle failures", "the gpu is lost"]));
        assert!(describes(&["the fabric manager", "it starts the fabric"]));
        assert!(describes(&["alert when a gpu fails", "the gpu is lost"]));
        assert!(describes(&["does it work with rdma?", "my gpu is lost"]));
        assert!(!describes(&["does it fail with rdma?", "my gpu is lost"]));
        assert!(describes(&["xid", "## proposed solution", "my gpu failed"]));
        assert!(!describes(&["the fabric manager fails", "it starts the fabric"]));
        assert!(!describes(&["the fabric manager", "my gpus are lost"]));
        assert!(!describes(&["the fabric manager", "nvrm: failed"]));
    }

    #[test]
    fn a_change_is_only_described() {
        let (words, general) = (words(), General::new().expect("patterns"));
        for (line, expected) in [
            ("feat(net): report that gpu direct rdma is disabled", true),
            ("[feature]: support gpu direct rdma in the chart", true),
            ("this change makes registration fail at once", true),
            ("it would be nice if the pod got an rdma device", true),
            ("nccl hangs with two gpus", false),
            ("after this change of the driver nccl hangs", false),
        ] {
            let mut voice = Voice::default();
            voice.read(&words, &general, line.as_bytes(), false, true);
            assert_eq!(voice.possible_from() == Basis::Message, expected, "{line}");
        }
    }

    /// The first cause of a text that is stated, not only possible.
    fn stated(lines: &[&str]) -> Option<String> {
        let matcher = Matcher::new(shipped().expect("the shipped table")).expect("its patterns");
        let reading = matcher.read(lines.join("\n").as_bytes()).expect("read");
        let sure = reading.matches.into_iter().find(|m| m.likelihood != Likelihood::Possible);
        sure.and_then(|found| found.symptom)
    }

    #[test]
    fn only_a_failure_that_happened_has_a_cause() {
        for lines in [
            &[
                "feat: count GPUs that fell off the bus",
                "The GPU has fallen off the bus after Xid 79.",
            ][..],
            &["[Feature] see Xid 79", "The GPU has fallen off the bus then."],
            &[
                "The Fabric Manager service",
                "It has to be started before CUDA is used.",
                "If it is not running, CUDA fails with error 802.",
            ],
            &[
                "nvidia-peermem",
                "It is built with the driver, and is loaded by hand.",
                "If it is not loaded, GPUDirect RDMA is disabled.",
            ],
            &[
                "Release notes of the driver",
                "In some cases the GPU is lost from the bus while it is reset.",
            ],
            &[
                "feat: count GPUs that fell off the bus",
                "[ 12.5] NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.",
            ],
            &["Does it need a Quadro?", "I read that GPUDirect RDMA is not supported on GeForce."],
        ] {
            assert_eq!(stated(lines), None, "{lines:?}");
        }
        for (lines, symptom) in [
            (
                &["Node lost", "After an hour of training my GPU has fallen off the bus."][..],
                "gpu-lost",
            ),
            (
                &["The GPU", "[ 12.5] NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus."],
                "gpu-lost",
            ),
            (&["GPU has fallen off the bus"], "gpu-lost"),
            (
                &[
                    "[Question] why did the GPU fall off the bus?",
                    "The GPU has fallen off the bus after an hour.",
                ],
                "gpu-lost",
            ),
        ] {
            assert_eq!(stated(lines).as_deref(), Some(symptom), "{lines:?}");
        }
    }
}
