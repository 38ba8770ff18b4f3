//! The bytes of `-x`, `-xxx` and `-xxxx`. How many there are says who asked and how, not what the function has.

use crate::model::config::HeaderKind;
use crate::model::{Config, Fact, Why};
use crate::pci::{self, Depth};

/// What they say; none where not even a header is there. Bytes behind the last whole part are those of a text that was cut.
pub(super) fn decode(raw: &[u8]) -> Option<Config> {
    let whole = [4096, 256, 64]
        .into_iter()
        .find(|whole| raw.len() >= *whole)?;
    let space = raw.get(..whole)?;
    let mut config = pci::decode(&space, Depth::Full);
    if whole == 64 {
        config = not_asked(config);
    }
    // Of a host bridge the kernel looks for extended space whatever its capabilities are; `-xxx` does not.
    let host_bridge = config
        .header
        .known()
        .is_none_or(|header| header.class.is_host_bridge());
    if whole == 256 && host_bridge && config.express.is_absent() {
        config = Config {
            acs: Fact::default(),
            ats: Fact::default(),
            aer: Fact::default(),
            resizable_bar: Fact::default(),
            sriov: Fact::default(),
            serial_number: Fact::default(),
            ..config
        };
    }
    Some(config)
}

/// `-x` prints 64 bytes for everybody: that there are no more is nobody's refusal.
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
        aer: slot(config.aer),
        resizable_bar: slot(config.resizable_bar),
        sriov: slot(config.sriov),
        serial_number: slot(config.serial_number),
        ..config
    }
}

/// What the first says, and where it does not know, what the second says.
pub(super) fn over(first: Config, second: Config) -> Config {
    let mut null_entries = first.null_entries;
    if null_entries.is_empty() {
        null_entries = second.null_entries;
    }
    Config {
        header: known(first.header, second.header),
        express: known(first.express, second.express),
        acs: known(first.acs, second.acs),
        ats: known(first.ats, second.ats),
        aer: known(first.aer, second.aer),
        resizable_bar: known(first.resizable_bar, second.resizable_bar),
        sriov: known(first.sriov, second.sriov),
        serial_number: known(first.serial_number, second.serial_number),
        null_entries,
        failure: first.failure.into_iter().chain(second.failure).collect(),
    }
}

/// The first fact that is known; of two that are not, the one that has a reason.
pub(super) fn known<T>(first: Fact<T>, second: Fact<T>) -> Fact<T> {
    match (first, second) {
        (Fact::Known(value), _) => Fact::Known(value),
        (Fact::Unknown(Why::NotCovered), second) => second,
        (first, Fact::Unknown(_)) => first,
        (Fact::Unknown(_), second) => second,
    }
}
