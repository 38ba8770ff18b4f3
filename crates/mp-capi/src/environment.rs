//! The environment variables of libmp and of its comm library, read once.

use std::time::Duration;

use engine::HcaKind;
use gdr_sys::process::SetOnce;

/// Their values.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// `MP_ENABLE_DEBUG` or `COMM_ENABLE_DEBUG`.
    pub debug: bool,
    /// `MP_ENABLE_WARN`: on unless it is 0.
    pub warn: bool,
    /// `MP_USE_IB_HCA`, or the older `USE_IB_HCA`: a device, or a part of its name. `NAME:PORT` is not in libmp.
    pub device: Option<String>,
    /// `MP_HCA`: `auto`, `mlx5`, `proxy` or `sim`; not in libmp. `MP_EVENT_ASYNC` selects the proxy: in libmp too a thread of the CPU
    /// then posts what streams trigger.
    pub hca: HcaKind,
    /// `MP_GID_INDEX`; not in libmp.
    pub gid_index: Option<u8>,
    /// `MP_IB_CQ_DEPTH`: completions per queue, and so requests per peer and direction.
    pub depth: u32,
    /// `MP_IB_MAX_SGL`: blocks of a vector.
    pub most_blocks: usize,
    /// `MP_RX_CQ_ON_GPU` or `MP_TX_CQ_ON_GPU`; `None` if neither is set.
    pub completions_on_gpu: Option<bool>,
    /// `MP_DBREC_ON_GPU`.
    pub records_on_gpu: Option<bool>,
    /// `MP_TIMEOUT_MS`: timeout of every wait; not in libmp, whose waits have none.
    pub timeout: Duration,
    /// `MP_STAGED`: GPU memory that the NIC cannot access goes through host memory; not in libmp.
    pub stages: bool,
}

/// Ranks of one job are rarely this far apart.
const TIMEOUT: Duration = Duration::from_secs(600);
/// libmp's depth.
const DEPTH: u32 = 512;

pub(crate) fn environment() -> &'static Environment {
    static ENVIRONMENT: SetOnce<Environment> = SetOnce::new();
    ENVIRONMENT.get_or_set(|| Environment::of(&|name| std::env::var(name).ok()))
}

/// Variables that ask for something that no longer applies, and why.
const OBSOLETE: [(&str, &str); 3] = [
    (
        "MP_ENABLE_UD",
        "connections send all that datagrams do, in any size, and detect what is lost",
    ),
    (
        "MP_ENABLE_IPC",
        "ranks of one machine use the NIC's or the software HCA's queues like all others",
    ),
    ("MP_CQ_POLL_COUNT", "a poll takes all completions that are there"),
];

/// Names and reasons of such variables.
pub(crate) fn obsolete() -> impl Iterator<Item = (&'static str, &'static str)> {
    let is_set = |name: &str| std::env::var(name).is_ok_and(|text| number(&text) != 0);
    OBSOLETE.into_iter().filter(move |(name, _)| is_set(name))
}

/// True if only the deprecated variable names the device.
pub(crate) fn names_device_by_old_variable() -> bool {
    std::env::var_os("MP_USE_IB_HCA").is_none() && std::env::var_os("USE_IB_HCA").is_some()
}

/// True if a variable is a number other than 0.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|text| number(&text) != 0)
}

/// A variable as C's `atoi` reads it.
pub(crate) fn value(name: &str) -> Option<i64> {
    std::env::var(name).ok().map(|text| number(&text))
}

impl Environment {
    fn of(find: &dyn Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| find(name).filter(|text| !text.is_empty());
        let number = |name: &str| text(name).map(|text| number(&text));
        let flag = |name: &str| number(name).map(|number| number != 0);
        let bounded =
            |name: &str, most: i64| number(name).filter(|found| (1..=most).contains(found));
        let (receives, sends) = (flag("MP_RX_CQ_ON_GPU"), flag("MP_TX_CQ_ON_GPU"));
        Self {
            debug: [flag("MP_ENABLE_DEBUG"), flag("COMM_ENABLE_DEBUG")].contains(&Some(true)),
            warn: flag("MP_ENABLE_WARN").unwrap_or(true),
            device: text("MP_USE_IB_HCA").or_else(|| text("USE_IB_HCA")),
            hca: match text("MP_HCA").as_deref() {
                Some("mlx5") => HcaKind::Mlx5,
                Some("proxy") => HcaKind::Proxy,
                Some("sim") => HcaKind::Software,
                _ if flag("MP_EVENT_ASYNC") == Some(true) => HcaKind::Proxy,
                _ => HcaKind::Auto,
            },
            gid_index: bounded("MP_GID_INDEX", 255).map(|index| index as u8),
            depth: bounded("MP_IB_CQ_DEPTH", 1 << 14).map_or(DEPTH, |depth| depth as u32),
            most_blocks: bounded("MP_IB_MAX_SGL", engine::MAX_BLOCKS as i64)
                .map_or(engine::MAX_BLOCKS, |most| most as usize),
            completions_on_gpu: match (receives, sends) {
                (None, None) => None,
                (receives, sends) => Some(receives == Some(true) || sends == Some(true)),
            },
            records_on_gpu: flag("MP_DBREC_ON_GPU"),
            timeout: bounded("MP_TIMEOUT_MS", u32::MAX.into())
                .map_or(TIMEOUT, |millis| Duration::from_millis(millis as u64)),
            stages: flag("MP_STAGED").unwrap_or(false),
        }
    }
}

/// C's `atoi`, without its overflow.
fn number(text: &str) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.split_at_checked(1) {
        Some(("-", rest)) => (-1, rest),
        Some(("+", rest)) => (1, rest),
        _ => (1, text),
    };
    let digits = digits.bytes().take_while(u8::is_ascii_digit);
    let number = digits.fold(0_i64, |number, digit| {
        number.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    });
    sign * number
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        Environment::of(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn parses_numbers_like_atoi() {
        for (text, expected) in [("1", 1), (" 10x", 10), ("-2", -2), ("+3", 3), ("", 0), ("yes", 0)]
        {
            assert_eq!(number(text), expected, "{text:?}");
        }
        assert_eq!(number("99999999999999999999"), i64::MAX);
    }

    #[test]
    fn reads_variables() {
        let none = of(&[]);
        assert!(none.warn && !none.debug && !none.stages && none.device.is_none());
        assert_eq!((none.hca, none.depth, none.most_blocks), (HcaKind::Auto, 512, 30));
        assert_eq!((none.timeout, none.completions_on_gpu), (TIMEOUT, None));
        let some = of(&[
            ("MP_ENABLE_WARN", "0"),
            ("USE_IB_HCA", "mlx5_3"),
            ("MP_EVENT_ASYNC", "1"),
            ("MP_TX_CQ_ON_GPU", "1"),
            ("MP_DBREC_ON_GPU", "0"),
            ("MP_IB_MAX_SGL", "31"),
            ("MP_IB_CQ_DEPTH", "64"),
            ("MP_TIMEOUT_MS", "1500"),
        ]);
        assert!(!some.warn);
        assert_eq!(some.device.as_deref(), Some("mlx5_3"));
        assert_eq!((some.hca, some.depth, some.most_blocks), (HcaKind::Proxy, 64, 30));
        assert_eq!((some.completions_on_gpu, some.records_on_gpu), (Some(true), Some(false)));
        assert_eq!(some.timeout, Duration::from_millis(1500));
        let newer = of(&[("USE_IB_HCA", "a"), ("MP_USE_IB_HCA", "b"), ("MP_HCA", "sim")]);
        assert_eq!((newer.device.as_deref(), newer.hca), (Some("b"), HcaKind::Software));
    }
}
