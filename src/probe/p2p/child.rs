//! The child's side: runs the units of its task. A unit that loses the CUDA contexts ends the child.

use std::time::Duration;

use super::cluster::Cluster;
use super::task::{Task, Unit};
use super::{concurrent, curve, pair};
use crate::probe::events::{Event, Reporter};
use crate::probe::failure::StepError;
use crate::probe::task;

impl task::Task for Task {
    const NAME: &'static str = "p2p";

    fn timeout(&self) -> Duration {
        self.terms.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        let mut cluster = Cluster::new(self);
        reporter.expect_units(self.units.len() as u64);
        for unit in self.units.iter().copied() {
            reporter.unit(self.subject(unit))?;
            let done = match unit {
                Unit::Alone(gpu) => cluster.alone(gpu, reporter),
                Unit::Pair(pair) => pair::run(&mut cluster, pair, reporter),
                Unit::Curve(pair) => curve::run(&mut cluster, pair, reporter),
                Unit::OneToAll(_) | Unit::AllToOne(_) | Unit::All => {
                    concurrent::run(&mut cluster, unit, reporter)
                }
            };
            match done {
                Ok(()) => {}
                Err(error @ StepError::Io(_)) => return Err(error),
                Err(error) => {
                    let lost = error.is_lost();
                    let mut why = gpu::sentence(&error);
                    if lost {
                        why.push_str("; this process has lost its CUDA contexts: look for Xid lines in dmesg");
                    }
                    let about = cluster.about(unit);
                    reporter.result(about.impossible(&cluster.step(), None, true, why))?;
                    if lost {
                        return Ok(reporter.send(&Event::Lost)?);
                    }
                }
            }
        }
        Ok(())
    }
}
