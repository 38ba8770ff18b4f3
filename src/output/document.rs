//! Header of every JSON document: schema, version of gdr and time.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

/// A document that a command prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document<T> {
    /// Id of the schema, as in `gdr.doctor/1`.
    pub schema: &'static str,
    /// Version of gdr that wrote it.
    pub gdr: &'static str,
    /// When the machine was read: of a recorded one the time of the recording, else the time of writing (UTC, RFC 3339).
    pub taken: String,
    #[serde(flatten)]
    pub body: T,
}

impl<T> Document<T> {
    /// Creates a document about a machine, with the time at which it was recorded or, else, the current one.
    pub fn of(schema: &'static str, recorded: Option<&str>, body: T) -> Self {
        Self { taken: recorded.map_or_else(now, str::to_owned), ..Self::new(schema, body) }
    }

    /// Creates a document with the current time.
    pub fn new(schema: &'static str, body: T) -> Self {
        Self { schema, gdr: env!("CARGO_PKG_VERSION"), taken: now(), body }
    }
}

/// Current time in UTC, as RFC 3339; `SOURCE_DATE_EPOCH` overrides it
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
pub fn now() -> String {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok();
    time(set.as_deref()).unwrap_or_else(|| rfc3339(SystemTime::now()))
}

/// A time in seconds since the epoch as RFC 3339.
pub fn time_of(seconds: u64) -> String {
    rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Formats seconds since the epoch; none if they are not a number or beyond the year 9999.
fn time(seconds: Option<&str>) -> Option<String> {
    /// Last second of the year 9999.
    const LAST: u64 = 253_402_300_799;
    let seconds = seconds?.parse().ok().filter(|seconds| *seconds <= LAST)?;
    Some(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_source_date_epoch() {
        assert_eq!(time(Some("1700000000")).as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(time(Some("253402300799")).as_deref(), Some("9999-12-31T23:59:59Z"));
        for none in ["", "-1", "1.5", "253402300800", "99999999999999999999"] {
            assert_eq!(time(Some(none)), None, "{none}");
        }
        assert_eq!(time(None), None);
    }
}
