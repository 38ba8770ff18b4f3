//! A value of NVML, or why it is missing.

use serde::{Deserialize, Serialize};

use super::fault::{Answer, Fault, INVALID_ARGUMENT, NO_PERMISSION};

/// A value of NVML. A value that was not requested is `None` in an `Option` around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// NVML's value.
    Known(T),
    /// Not supported: this GPU, driver or library lacks the function or reports that it does not
    /// apply.
    NotCovered,
    /// No permission.
    Denied,
    /// The call failed: `nvmlDeviceGetX: NVML's message (code)`.
    Broken(String),
}

impl<T> Reading<T> {
    /// The value, if any.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::NotCovered | Self::Denied | Self::Broken(_) => None,
        }
    }

    /// Converts the value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        match self {
            Self::Known(value) => Reading::Known(change(value)),
            Self::NotCovered => Reading::NotCovered,
            Self::Denied => Reading::Denied,
            Self::Broken(reason) => Reading::Broken(reason),
        }
    }

    /// Result of a call whose argument an older driver may not know: then "invalid argument" means
    /// "not supported".
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

    /// Codes of `nvmlReturn_t` in nvml.h.
    #[test]
    fn codes_become_readings() {
        for uncovered in [3, 13, 25, 26] {
            assert_eq!(reading(uncovered), Reading::NotCovered, "{uncovered}");
        }
        assert_eq!(Reading::<u32>::from(Fault::missing("nvmlDeviceGetX")), Reading::NotCovered);
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
    fn invalid_newer_argument_is_unsupported() {
        let invalid = || Err(Fault::returned("nvmlDeviceGetX", 2));
        assert_eq!(Reading::<u32>::of_newer_argument(invalid()), Reading::NotCovered);
        assert!(matches!(Reading::<u32>::from(invalid()), Reading::Broken(_)));
    }

    #[test]
    fn json_format() -> Result<(), serde_json::Error> {
        let text = serde_json::to_string(&[
            Reading::Known(7),
            Reading::NotCovered,
            Reading::Broken("x".into()),
        ])?;
        assert_eq!(text, r#"[{"known":7},"not_covered",{"broken":"x"}]"#);
        Ok(())
    }
}
