//! One value NVML was asked for, or why there is none.

use serde::{Deserialize, Serialize};

use super::fault::{Answer, Fault, INVALID_ARGUMENT, NO_PERMISSION};

/// A value NVML was asked for. What was not asked is an `Option` that is `None` around it, never
/// one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// NVML's answer.
    Known(T),
    /// This GPU, driver or library has no answer: the function is missing, or says that it does not
    /// apply.
    NotCovered,
    /// The answer is kept from this user.
    Denied,
    /// The call failed: `nvmlDeviceGetX: what NVML says (code)`.
    Broken(String),
}

impl<T> Reading<T> {
    /// The value, where there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::NotCovered | Self::Denied | Self::Broken(_) => None,
        }
    }

    /// The same reading of a value put another way.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Known(value) => Reading::Known(change(value)),
            Self::NotCovered => Reading::NotCovered,
            Self::Denied => Reading::Denied,
            Self::Broken(reason) => Reading::Broken(reason),
        }
    }

    /// The reading of a call whose argument an older driver may not know: there, "invalid argument"
    /// means "not covered".
    pub(super) fn of_newer_argument(answer: Answer<T>) -> Self {
        match answer {
            Err(fault) if fault.code() == Some(INVALID_ARGUMENT) => Self::NotCovered,
            other => other.into(),
        }
    }
}

impl<T> From<Answer<T>> for Reading<T> {
    fn from(answer: Answer<T>) -> Self {
        match answer {
            Ok(value) => Self::Known(value),
            Err(fault) => fault.into(),
        }
    }
}

impl<T> From<Fault> for Reading<T> {
    fn from(fault: Fault) -> Self {
        if fault.is_uncovered() {
            Self::NotCovered
        } else if fault.code() == Some(NO_PERMISSION) {
            Self::Denied
        } else {
            Self::Broken(fault.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(code: u32) -> Reading<u32> {
        Fault::returned("nvmlDeviceGetX", code).into()
    }

    /// The numbers are `nvmlReturn_t`'s, from nvml.h.
    #[test]
    fn codes_become_readings() {
        for uncovered in [3, 13, 25, 26] {
            assert_eq!(reading(uncovered), Reading::NotCovered, "{uncovered}");
        }
        assert_eq!(
            Reading::<u32>::from(Fault::missing("nvmlDeviceGetX")),
            Reading::NotCovered
        );
        assert_eq!(reading(4), Reading::Denied);
        assert_eq!(
            reading(15),
            Reading::Broken("nvmlDeviceGetX: the GPU has fallen off the bus (15)".into())
        );
        assert_eq!(
            reading(4242),
            Reading::Broken("nvmlDeviceGetX: an error this binding does not know (4242)".into())
        );
    }

    #[test]
    fn only_a_newer_argument_may_be_invalid() {
        let invalid = || Err(Fault::returned("nvmlDeviceGetX", 2));
        assert_eq!(
            Reading::<u32>::of_newer_argument(invalid()),
            Reading::NotCovered
        );
        assert!(matches!(
            Reading::<u32>::from(invalid()),
            Reading::Broken(_)
        ));
    }

    #[test]
    fn the_json_is_what_the_snapshot_holds() -> Result<(), serde_json::Error> {
        let text = serde_json::to_string(&[
            Reading::Known(7),
            Reading::NotCovered,
            Reading::Broken("x".into()),
        ])?;
        assert_eq!(text, r#"[{"known":7},"not_covered",{"broken":"x"}]"#);
        Ok(())
    }
}
