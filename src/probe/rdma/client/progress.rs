//! The step in progress, and the likely cause if it fails.

use verbs::Failure;

use crate::probe::failure::StepError;

#[derive(Default)]
pub struct Progress {
    pub step: String,
    /// Bytes of its messages.
    bytes: usize,
    /// The longest message of earlier steps.
    arrived: Option<usize>,
}

impl Progress {
    /// Begins a step with messages of `bytes` bytes. The step before it has succeeded: a failure ends the client.
    pub fn begin(&mut self, name: &str, bytes: usize) {
        if !self.step.is_empty() {
            self.arrived = self.arrived.max(Some(self.bytes));
        }
        self.step = format!("{name} of {bytes} bytes");
        self.bytes = bytes;
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
            "; messages at least as long arrived before: check that the remote process still runs, and the network between the ports for loss"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_claims_what_earlier_steps_showed() {
        let mut progress = Progress::default();
        for (bytes, words) in [
            (64, "no earlier step succeeded"),
            (4096, "shorter messages arrived"),
            (4096, "messages at least as long arrived"),
            (1, "messages at least as long arrived"),
        ] {
            progress.begin("rdma.write.latency", bytes);
            // IBV_WC_RETRY_EXC_ERR, and IBV_WC_REM_ACCESS_ERR.
            let [unanswered, denied] = [12, 10].map(|status| {
                let failure = Failure { status, syndrome: 0 };
                progress.explain(StepError::Work(failure)).to_string()
            });
            let step = format!("rdma.write.latency of {bytes} bytes: ");
            assert!(unanswered.starts_with(&step) && unanswered.contains(words), "{unanswered}");
            assert!(!denied.contains("arrived"), "{denied}");
        }
    }
}
