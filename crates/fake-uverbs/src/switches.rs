//! What the environment asks of the double: whether it executes, and which faults it has. It is read once.

use std::sync::OnceLock;

/// A request or a receive that does not end as it should: of the n-th queue pair of the process, the n-th. Both count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    pair: u64,
    request: u64,
    /// The syndrome and the vendor's syndrome of its error completion; none where it is never completed.
    error: Option<(u8, u8)>,
}

/// Which half of a queue pair is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Send,
    Receive,
}

/// What becomes of a request, whatever it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Works,
    Fails { syndrome: u8, vendor: u8 },
    Vanishes,
}

/// Which pages of doorbell registers are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    None,
    /// Those that a thread domain asks for.
    Dynamic,
    /// All of them, without which no device can be opened.
    All,
}

/// The variables, each as the crate's own documentation names it.
pub struct Switches {
    /// `FAKE_UVERBS_CARD=1`.
    pub executes: bool,
    pub is_traced: bool,
    pub refused: Refused,
    sends: Vec<Rule>,
    receives: Vec<Rule>,
    ports_down: Vec<u64>,
}

impl Switches {
    /// What becomes of the so manieth request of the so manieth queue pair.
    pub fn fate(&self, side: Side, pair: u64, request: u64) -> Fate {
        let rules = match side {
            Side::Send => &self.sends,
            Side::Receive => &self.receives,
        };
        let rule = rules
            .iter()
            .find(|rule| (rule.pair, rule.request) == (pair, request));
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

/// The environment's, as it was at the first call.
pub fn switches() -> &'static Switches {
    static READ: OnceLock<Switches> = OnceLock::new();
    READ.get_or_init(|| {
        let value = |name: &str| std::env::var(name).unwrap_or_default();
        Switches {
            executes: value("FAKE_UVERBS_CARD") == "1",
            is_traced: std::env::var_os("FAKE_UVERBS_TRACE").is_some(),
            refused: match value("FAKE_UVERBS_DENY").as_str() {
                "dynamic" => Refused::Dynamic,
                "all" => Refused::All,
                _ => Refused::None,
            },
            sends: rules(&value("FAKE_UVERBS_FAIL"), &value("FAKE_UVERBS_DROP")),
            receives: rules(
                &value("FAKE_UVERBS_FAIL_RECEIVE"),
                &value("FAKE_UVERBS_DROP_RECEIVE"),
            ),
            ports_down: numbers(&value("FAKE_UVERBS_PORT_DOWN"), ','),
        }
    })
}

/// `PAIR:REQUEST:SYNDROME:VENDOR` and `PAIR:REQUEST`, several with commas between. What is written otherwise is told, and does
/// nothing.
fn rules(fail: &str, drop: &str) -> Vec<Rule> {
    let listed = |list: &str, length: usize| -> Vec<Vec<u64>> {
        let written = list.split(',').filter(|rule| !rule.is_empty());
        let (good, bad): (Vec<_>, Vec<_>) = written
            .map(|rule| (rule.to_owned(), numbers(rule, ':')))
            .partition(|(_, numbers)| numbers.len() == length);
        for (rule, _) in bad {
            crate::say(&format!("{rule:?} is no rule of {length} numbers"));
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

/// Decimal numbers, or hexadecimal ones with `0x`.
fn numbers(list: &str, between: char) -> Vec<u64> {
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    list.split(between)
        .filter_map(|word| number(word.trim()))
        .collect()
}
