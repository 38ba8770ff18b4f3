//! Hex bytes of `-x`, `-xxx` and `-xxxx`. Their number depends on the user and options, not on the function.

use crate::model::config::HeaderKind;
use crate::model::{Config, Fact, Why};
use crate::pci::{self, Depth};

/// Decodes them, `None` without a whole header; a cut text may end with part of a line.
pub(super) fn decode(raw: &[u8]) -> Option<Config> {
    let whole = [4096, 256, 64].into_iter().find(|whole| raw.len() >= *whole)?;
    let space = raw.get(..whole)?;
    let mut config = pci::decode(&space, Depth::Full);
    if whole == 64 {
        config = not_asked(config);
    }
    // For host bridges the kernel always looks for extended space, but `-xxx` does not print it.
    let host_bridge = config.header.known().is_none_or(|header| header.class.is_host_bridge());
    if whole == 256 && host_bridge && config.express.is_absent() {
        config = Config {
            acs: Fact::default(),
            ats: Fact::default(),
            sriov: Fact::default(),
            serial_number: Fact::default(),
            ..config
        };
    }
    Some(config)
}

/// `-x` prints 64 bytes to everyone, so missing ones do not mean "denied".
fn not_asked(mut config: Config) -> Config {
    fn slot<T>(fact: Fact<T>) -> Fact<T> {
        match fact {
            Fact::Unknown(Why::Denied) => Fact::Unknown(Why::NotCovered),
            fact => fact,
        }
    }
    if let Fact::Known(header) = &mut config.header
        && let HeaderKind::Bridge { subsystem, .. } = &mut header.kind
    {
        *subsystem = slot(std::mem::take(subsystem));
    }
    Config {
        express: slot(config.express),
        acs: slot(config.acs),
        ats: slot(config.ats),
        sriov: slot(config.sriov),
        serial_number: slot(config.serial_number),
        ..config
    }
}

/// The known facts of the first, completed by the second.
pub(super) fn over(first: Config, second: Config) -> Config {
    Config {
        header: known(first.header, second.header),
        express: known(first.express, second.express),
        acs: known(first.acs, second.acs),
        ats: known(first.ats, second.ats),
        sriov: known(first.sriov, second.sriov),
        serial_number: known(first.serial_number, second.serial_number),
        failure: first.failure.into_iter().chain(second.failure).collect(),
    }
}

/// The known fact; if both are unknown, the one with a reason.
pub(super) fn known<T>(first: Fact<T>, second: Fact<T>) -> Fact<T> {
    match (first, second) {
        (Fact::Known(value), _) => Fact::Known(value),
        (Fact::Unknown(Why::NotCovered), second) => second,
        (first, Fact::Unknown(_)) => first,
        (Fact::Unknown(_), second) => second,
    }
}
