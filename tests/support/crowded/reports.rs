//! Reports of gdr itself with as much as fits into a size: the smallest items of every list.

use super::{Input, filled};

/// Who reads a report, besides `gdr fleet report`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBy {
    Fleet,
    /// Whatever reads the results of a probe: comparisons, baselines, expectations.
    Probe,
}

const TOPO: &str = "{\"schema\":\"gdr.topo/1\",\"gdr\":\"1\",\"host\":{\"name\":\"n\"},";
const DOCTOR: &str = "{\"schema\":\"gdr.doctor/1\",\"gdr\":\"1\",\"host\":{\"name\":\"n\"},";
const PROBE: &str = "{\"schema\":\"gdr.probe/1\",\"gdr\":\"1\",\"probe\":\"copy\",\"simulated\":true,\"complete\":true,\
    \"host\":{\"source\":\"live\",\"name\":\"n\",\"os\":null,\"kernel\":null,\"cpu\":null,\"cpus\":null,\"memory\":null},\"gpus\":[],";

/// A result without what is not required.
const RESULT: &str =
    "\"subject\":\"\",\"backend\":\"\",\"verified\":0,\"samples\":0,\"required\":false";

/// Texts that hold one list with as many items as fit. Most items differ, because equal texts are kept once.
pub fn reports(size: usize) -> Vec<(ReadBy, Input)> {
    let report =
        |by, name: &str, head: &str, list: &str, item: &dyn Fn(usize) -> String, last: &str| {
            let head = format!("{head}{list}");
            (by, Input::new(name, filled(size, &head, item, last)))
        };
    let topo = |name, list, item: &dyn Fn(usize) -> String, last| {
        report(ReadBy::Fleet, name, TOPO, list, item, last)
    };
    let doctor = |name, list, item: &dyn Fn(usize) -> String, last| {
        report(ReadBy::Fleet, name, DOCTOR, list, item, last)
    };
    let probe = |name, list, item: &dyn Fn(usize) -> String| {
        let end = format!(
            "{}]{}}}",
            item(0).trim_end_matches(','),
            match list {
                "\"results\":[" => ",\"notes\":[]",
                _ => ",\"results\":[]",
            }
        );
        report(ReadBy::Probe, name, PROBE, list, item, &end)
    };
    let finding = |outcome: &str, at: usize| {
        format!(
            "{{\"id\":\"a.{at}\",\"outcome\":\"{outcome}\",\"severity\":\"error\",\"subject\":\"\",\"message\":\"\"}},"
        )
    };
    let evidence = |at: usize| format!("{{\"source\":\"{at}\",\"value\":\"\"}},");
    let last = finding("pass", 0);
    let last = format!("{}]}}", last.trim_end_matches(','));
    let figure = |verdict: &str, at: usize| {
        format!(
            "{{\"name\":\"{at}\",\"unit\":\"GB/s\",\"median\":1,\"verdict\":\"{verdict}\",{RESULT}}},"
        )
    };
    let one = |list: &str| {
        format!(
            "\"results\":[{{\"name\":\"a\",\"unit\":\"GB/s\",\"median\":1,\"verdict\":\"ok\",{RESULT},\"{list}\":["
        )
    };
    let with_list = |name, list, item: &dyn Fn(usize) -> String| {
        let end = format!("{}]}}],\"notes\":[]}}", item(0).trim_end_matches(','));
        report(ReadBy::Probe, name, PROBE, &one(list), item, &end)
    };
    vec![
        topo(
            "topo devices",
            "\"devices\":[",
            &|at| format!("{{\"name\":\"{at}\"}},"),
            "{\"name\":\"a\"}]}",
        ),
        topo(
            "topo equal devices",
            "\"devices\":[",
            &|_| "{\"name\":\"\"},".to_owned(),
            "{\"name\":\"\"}]}",
        ),
        topo("topo rows", "\"matrix\":{", &|at| format!("\"{at}\":{{}},"), "\"a\":{}}}"),
        topo("topo row", "\"matrix\":{\"0\":{", &|at| format!("\"{at}\":\"\","), "\"a\":\"\"}}}"),
        doctor(
            "doctor readiness",
            "\"readiness\":[",
            &|at| format!("{{\"profile\":\"{at}\",\"state\":\"ready\"}},"),
            "{\"profile\":\"a\",\"state\":\"ready\"}]}",
        ),
        doctor("doctor findings", "\"findings\":[", &|at| finding("pass", at), &last),
        doctor("doctor failures", "\"findings\":[", &|at| finding("fail", at), &last),
        doctor(
            "doctor evidence",
            "\"findings\":[",
            &|at| {
                finding("pass", at).replace(
                    "}",
                    &format!(
                        ",\"evidence\":[{}{}]}}",
                        (0..10_000).map(|of| evidence(10_000 * at + of)).collect::<String>(),
                        evidence(0).trim_end_matches(',')
                    ),
                )
            },
            &last,
        ),
        doctor(
            "doctor evidence of one",
            &format!("\"findings\":[{},\"evidence\":[", finding("pass", 0).trim_end_matches("},")),
            &evidence,
            "{\"source\":\"\",\"value\":\"\"}]}]}",
        ),
        probe("probe results", "\"results\":[", &|at| figure("ok", at)),
        probe("probe equal results", "\"results\":[", &|_| figure("ok", 0)),
        probe("probe failures", "\"results\":[", &|at| figure("wrong", at)),
        probe("probe notes", "\"notes\":[", &|_| "\"\",".to_owned()),
        probe("probe counters", "\"pairs\":[", &|_| "{},".to_owned()),
        with_list("probe runs", "runs", &|_| "1,".to_owned()),
        with_list("probe buckets", "histogram", &|_| {
            "{\"from\":1,\"to\":1,\"samples\":1},".to_owned()
        }),
        report(
            ReadBy::Fleet,
            "probe changes",
            PROBE,
            "\"results\":[],\"baseline\":{\"changes\":[",
            &|at| {
                format!("{{\"area\":\"\",\"fact\":\"{at}\",\"figure\":{{\"regression\":true}}}},")
            },
            "{\"area\":\"\",\"fact\":\"a\"}]}}",
        ),
        report(
            ReadBy::Probe,
            "a long text",
            PROBE,
            "\"results\":[],\"notes\":[\"",
            &|_| "words and more words, ".to_owned(),
            "\"]}",
        ),
        report(
            ReadBy::Probe,
            "a long name",
            PROBE,
            "\"notes\":[],\"results\":[{\"name\":\"",
            &|_| "words and more words, ".to_owned(),
            &format!("\",\"unit\":\"GB/s\",\"median\":1,\"verdict\":\"ok\",{RESULT}}}]}}"),
        ),
    ]
}
