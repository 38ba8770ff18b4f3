//! The step in progress, and the likely cause if it fails.

use verbs::Failure;

use crate::probe::failure::StepError;

#[derive(Default)]
pub struct Progress {
    /// The step.
    pub step: String,
    /// Bytes of its messages.
    bytes: usize,
    /// The longest message of the test cases that have ended.
    arrived: Option<usize>,
}

impl Progress {
    /// Begins a step with messages of `bytes` bytes.
    pub fn begin(&mut self, name: &str, bytes: usize) {
        self.step = format!("{name} of {bytes} bytes");
        self.bytes = bytes;
    }

    /// Ends a test case: its messages arrived.
    pub fn end_case(&mut self) {
        self.arrived = self.arrived.max(Some(self.bytes));
    }

    /// Adds the step to a failed request, with its likely cause.
    pub fn explain(&self, failure: StepError) -> StepError {
        match failure {
            StepError::Work(failure) => {
                let hint = hint(failure, self.bytes, self.arrived);
                StepError::Step(self.step.clone(), failure, hint)
            }
            other => other,
        }
    }
}

/// The likely cause of a failed request for a message of this length, where messages up to `arrived` bytes arrived in earlier steps.
fn hint(failure: Failure, bytes: usize, arrived: Option<usize>) -> &'static str {
    if failure.name() != Some("RETRY_EXC_ERR") {
        return "";
    }
    match arrived {
        None => {
            "; no earlier step succeeded: see the GIDs (ibv_devinfo -v, --gid-index), the network between the ports, and its firewall"
        }
        Some(arrived) if arrived < bytes => {
            "; shorter messages arrived before: check that the network between the ports carries packets of their MTU without loss"
        }
        Some(_) => {
            "; messages of this length arrived before: check that the remote process still runs, and the network between the ports for loss"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_claims_what_earlier_steps_showed() {
        // IBV_WC_RETRY_EXC_ERR, and IBV_WC_REM_ACCESS_ERR.
        let [unanswered, denied] = [12, 10].map(|status| Failure {
            status,
            syndrome: 0,
        });
        let says = |arrived, words: &str| hint(unanswered, 4096, arrived).contains(words);
        assert!(says(None, "no earlier step succeeded"));
        assert!(says(Some(4095), "shorter messages arrived"));
        assert!(says(Some(4096), "messages of this length arrived"));
        assert_eq!(hint(denied, 4096, Some(1)), "");
    }
}
