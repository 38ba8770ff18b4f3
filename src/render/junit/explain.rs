//! An explanation as JUnit: a case for each path of a job, each lost path, each failure and each cause.

use super::{Case, CaseResult, document};
use crate::model::{Allowed, ExplainReport, Job, Loss, RankFailure, Standing, SymptomMatch};
use crate::render::job::{cells, failure_words, machine_words};

pub fn explain(report: &ExplainReport) -> String {
    let job = report.job.iter().flat_map(of_job);
    let causes = report.matches.iter().map(cause);
    let uncovered = report.uncovered.iter().map(|failure| Case {
        class: "gdr.explain.uncovered".to_owned(),
        name: failure.line.place(),
        result: CaseResult::Failed(format!("{}\n{}", failure.subject, failure.line.text)),
    });
    let mut cases: Vec<Case> = job.chain(causes).chain(uncovered).collect();
    if cases.is_empty() {
        cases.push(Case {
            class: "gdr.explain".to_owned(),
            name: report.asked.clone(),
            result: CaseResult::Skipped("no known symptom".to_owned()),
        });
    }
    document("gdr explain", &cases)
}

fn of_job(job: &Job) -> Vec<Case> {
    let paths = job.communicators.iter().zip(1..).flat_map(|(communicator, at)| {
        communicator.paths.iter().map(move |path| {
            let [name, gdrdma, _, _, ranks] = cells(path, &job.gpu_paths);
            Case {
                class: format!("gdr.job.path.{at}"),
                name: match gdrdma.as_str() {
                    "-" => format!("{name}: {ranks}"),
                    gdrdma => format!("{name}, GPUDirect RDMA {gdrdma}: {ranks}"),
                },
                result: CaseResult::Passed,
            }
        })
    });
    let seen = Case {
        class: "gdr.job".to_owned(),
        name: "complete".to_owned(),
        result: match job.ranks {
            Some(ranks) if ranks <= job.ranks_seen && !job.cut => CaseResult::Passed,
            _ => CaseResult::Error("the log lacks ranks or paths of the job".to_owned()),
        },
    };
    paths
        .chain(job.lost.iter().map(lost))
        .chain(job.failures.iter().map(failure))
        .chain([seen])
        .collect()
}

fn lost(loss: &Loss) -> Case {
    let line = loss.line.as_ref().map(|line| format!("\n{}: {}", line.place(), line.text));
    let text = format!(
        "{}\nwhy: {}\nmachine: {}{}",
        loss.what,
        loss.why,
        machine_words(loss),
        line.unwrap_or_default()
    );
    Case {
        class: "gdr.job.lost".to_owned(),
        name: loss.what.clone(),
        result: match loss.allowed {
            Allowed::Yes => CaseResult::Failed(text),
            Allowed::Unknown => CaseResult::Error(text),
            Allowed::No => CaseResult::Skipped(text),
        },
    }
}

fn failure(failure: &RankFailure) -> Case {
    let details: String =
        failure.details.iter().map(|detail| format!("\n{}", detail.text)).collect();
    let (words, line) = (failure_words(failure), &failure.line);
    let text = format!("{words}\n{}: {}{details}", line.place(), line.text);
    Case {
        class: "gdr.job.failure".to_owned(),
        name: words,
        result: if failure.kind.is_certain() {
            CaseResult::Failed(text)
        } else {
            CaseResult::Error(text)
        },
    }
}

fn cause(found: &SymptomMatch) -> Case {
    let line = &found.line;
    let text = format!("{}\n{}: {}\nfix: {}", found.cause, line.place(), line.text, found.remedy);
    Case {
        class: format!("gdr.explain.{}", found.check),
        name: found.cause.clone(),
        result: match found.standing {
            Some(Standing::Excluded) => CaseResult::Passed,
            Some(Standing::Confirmed) => CaseResult::Failed(text),
            Some(Standing::Open) | None => CaseResult::Error(text),
        },
    }
}
