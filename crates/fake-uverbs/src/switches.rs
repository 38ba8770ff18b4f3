//! Environment variables: whether the NIC executes, and its faults. Read once.

use std::sync::OnceLock;
use std::time::Duration;

/// A fault of one request, by queue pair and request, both from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    pair: u64,
    request: u64,
    /// Syndrome and vendor's syndrome of the error completion; none if it never completes.
    error: Option<(u8, u8)>,
}

/// Outcome of a request that a fault imposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Works,
    Fails { syndrome: u8, vendor: u8 },
    Vanishes,
}

/// Register pages that cannot be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    None,
    /// Those of thread domains.
    Dynamic,
    /// All, so that no device can be opened.
    All,
}

/// The variables that the crate's documentation lists.
pub struct Switches {
    /// `FAKE_UVERBS_NIC=1`.
    pub executes: bool,
    pub is_traced: bool,
    /// `FAKE_UVERBS_WAIT`: limit of waits for an answer, instead of that of the queue pair.
    pub wait: Option<Duration>,
    /// `FAKE_UVERBS_RECORDLESS=1`: queue pairs can have a send queue without a doorbell record.
    pub has_recordless_queues: bool,
    pub denied: Denied,
    /// `FAKE_UVERBS_DMABUF`: errors of UMEM from a dma-buf with the PCIe mapping, and with the default one; 0 is none.
    pub dmabuf: [i32; 2],
    rules: Vec<Rule>,
    ports_down: Vec<u64>,
}

impl Switches {
    /// The fate of a request of a queue pair, both counted from 0.
    pub fn fate(&self, pair: u64, request: u64) -> Fate {
        let rule = self.rules.iter().find(|rule| (rule.pair, rule.request) == (pair, request));
        match rule.map(|rule| rule.error) {
            None => Fate::Works,
            Some(None) => Fate::Vanishes,
            Some(Some((syndrome, vendor))) => Fate::Fails { syndrome, vendor },
        }
    }

    pub fn is_down(&self, port: u8) -> bool {
        self.ports_down.contains(&u64::from(port))
    }
}

/// Reads the environment on the first call.
pub fn switches() -> &'static Switches {
    static READ: OnceLock<Switches> = OnceLock::new();
    READ.get_or_init(|| {
        let value = |name: &str| std::env::var(name).unwrap_or_default();
        Switches {
            executes: value("FAKE_UVERBS_NIC") == "1",
            has_recordless_queues: value("FAKE_UVERBS_RECORDLESS") == "1",
            is_traced: std::env::var_os("FAKE_UVERBS_TRACE").is_some(),
            wait: value("FAKE_UVERBS_WAIT").parse().ok().map(Duration::from_millis),
            denied: match value("FAKE_UVERBS_DENY").as_str() {
                "dynamic" => Denied::Dynamic,
                "all" => Denied::All,
                _ => Denied::None,
            },
            dmabuf: match numbers(&value("FAKE_UVERBS_DMABUF"), ':')[..] {
                [pcie, default] => {
                    [pcie, default].map(|errno| i32::try_from(errno).unwrap_or(libc::EIO))
                }
                _ => [0; 2],
            },
            rules: rules(&value("FAKE_UVERBS_FAIL"), &value("FAKE_UVERBS_DROP")),
            ports_down: numbers(&value("FAKE_UVERBS_PORT_DOWN"), ','),
        }
    })
}

/// `PAIR:REQUEST:SYNDROME:VENDOR` and `PAIR:REQUEST`, comma-separated. An invalid rule is reported and ignored.
fn rules(fail: &str, drop: &str) -> Vec<Rule> {
    let listed = |list: &str, length: usize| -> Vec<Vec<u64>> {
        let written = list.split(',').filter(|rule| !rule.is_empty());
        let (good, bad): (Vec<_>, Vec<_>) = written
            .map(|rule| (rule.to_owned(), numbers(rule, ':')))
            .partition(|(_, numbers)| numbers.len() == length);
        for (rule, _) in bad {
            crate::log(&format!("invalid fault rule {rule:?}: needs {length} numbers"));
        }
        good.into_iter().map(|(_, numbers)| numbers).collect()
    };
    let byte = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
    let failing = listed(fail, 4).into_iter().map(|rule| Rule {
        pair: rule[0],
        request: rule[1],
        error: Some((byte(rule[2]), byte(rule[3]))),
    });
    let vanishing = listed(drop, 2).into_iter().map(|rule| Rule {
        pair: rule[0],
        request: rule[1],
        error: None,
    });
    failing.chain(vanishing).collect()
}

/// Decimal or `0x` hexadecimal numbers.
fn numbers(list: &str, between: char) -> Vec<u64> {
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    list.split(between).filter_map(|word| number(word.trim())).collect()
}
