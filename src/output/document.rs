//! What stands at the top of every JSON document: its schema, gdr's version and the time.

use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;

/// A document that a command prints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document<T> {
    /// The schema's id, as in `gdr.doctor/1`.
    pub schema: &'static str,
    /// The version of gdr that wrote it.
    pub gdr: &'static str,
    /// When it was written (UTC, RFC 3339).
    pub taken: String,
    #[serde(flatten)]
    pub body: T,
}

impl<T> Document<T> {
    /// A document that is written now.
    pub fn new(schema: &'static str, body: T) -> Self {
        Self {
            schema,
            gdr: env!("CARGO_PKG_VERSION"),
            taken: now(),
            body,
        }
    }
}

/// The time in UTC, as RFC 3339 writes it; `SOURCE_DATE_EPOCH` sets it (<https://reproducible-builds.org/specs/source-date-epoch/>).
pub fn now() -> String {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok();
    time(set.as_deref()).unwrap_or_else(|| rfc3339(SystemTime::now()))
}

/// The time that a number of seconds stands for; none where it is no number, or no year that can be written.
fn time(seconds: Option<&str>) -> Option<String> {
    /// The last second of the year 9999.
    const LAST: u64 = 253_402_300_799;
    let seconds = seconds?.parse().ok().filter(|seconds| *seconds <= LAST)?;
    Some(rfc3339(
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
    ))
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_set_by_seconds_that_are_a_date() {
        assert_eq!(
            time(Some("1700000000")).as_deref(),
            Some("2023-11-14T22:13:20Z")
        );
        assert_eq!(
            time(Some("253402300799")).as_deref(),
            Some("9999-12-31T23:59:59Z")
        );
        for none in ["", "-1", "1.5", "253402300800", "99999999999999999999"] {
            assert_eq!(time(Some(none)), None, "{none}");
        }
        assert_eq!(time(None), None);
    }
}
