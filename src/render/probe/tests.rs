//! All formats of one handwritten report, compared with handwritten output.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rdma_tests::two_nics;
use super::sample::{SUBJECT, bare, report};
use super::{curve, svg, table};
use crate::model::{
    Finding, Outcome, ProbeKind, ProbeReport, ProbeResult, ProbeVerdict, ProbedGpu, ProbedPair,
    Severity,
};
use crate::render::Style;

const PLAIN: Style = Style { color: false, width: 100 };

#[test]
fn table_of_copy_probe() {
    let wanted = "\
gdr probe copy: node1, Linux, 6.8

GPU0 (0000:3b:00.0): NVIDIA H200
  mapped by rm, write-combined; copy kernels: avx512 to the GPU, avx512 from it
  not by gdrdrv: /dev/gdrdrv is not there
  its PCI Express link carries 63.0 GB/s; it is on NUMA node 0
  verified 128.3 MiB in 15 checks: all bytes are correct

  medians, to the GPU, CPUs of NUMA node 0
  size    mapped us   GB/s  CPU us  pinned us  CPU us  pageable us  CPU us
  4 B         0.156  0.026   0.156       6.00    6.00            -       -
  64 KiB       2.85   23.0    2.85       20.6    20.6            -       -
  16 MiB        504   33.3    4032        310     310            -       -

  medians, from the GPU, CPUs of NUMA node 0
  size    mapped us   GB/s  CPU us  pinned us  CPU us  pageable us  CPU us
  4 B          1.04  0.004    1.04       7.40    7.40            -       -
  64 KiB       6.40   10.2    6.40       15.3    15.3            -       -
  16 MiB       1069   15.7    8552        305     305            -       -
  cuMemcpy with pinned memory is faster to the GPU from 16 MiB on
  cuMemcpy with pinned memory uses less CPU time from the GPU from 64 KiB on

  latency of calls, us
  call                      count  min  median  p99   max        min to max
  pin 64 KiB                  100  120     141  300   565  ▃▃▃▃████····▁▁▁▁
  round trip with a kernel    100    -    1.93    -  7.72

passed: 17 ok, 0 slow, 0 wrong, 0 could not run
";
    assert_eq!(table(&report(), PLAIN), wanted);
}

#[test]
fn last_line_fails_with_an_expectation() {
    for (outcome, word) in [(Outcome::Warn, "passed: 17 ok"), (Outcome::Fail, "failed: 17 ok")] {
        let mut report = report();
        report.findings.push(Finding {
            id: "expect.bandwidth".to_owned(),
            outcome,
            severity: Severity::Error,
            subject: SUBJECT.to_owned(),
            message: "Slower than expected.".to_owned(),
            evidence: Vec::new(),
            needs: None,
            fix: None,
            action: None,
            missing: None,
        });
        let table = table(&report, PLAIN);
        let last = table.lines().last();
        assert!(last.is_some_and(|last| last.starts_with(word)), "{table}");
    }
}

#[test]
fn table_shows_failures() {
    let mut report = report();
    let slow = |bytes| ProbeResult {
        verdict: ProbeVerdict::Slow,
        unit: "GB/s".to_owned(),
        median: Some(3.1),
        reason: Some("less than 20 % of the 63.0 GB/s that the link carries".to_owned()),
        ..bare("copy.write.bandwidth", Some(bytes))
    };
    report.results.extend([
        ProbeResult {
            verdict: ProbeVerdict::Wrong,
            reason: Some("0x7f0025: byte 37 is 0x00 and should be 0x5a\u{1b}[31m".to_owned()),
            ..bare("validate.malloc.offsets", Some(4096))
        },
        ProbeResult {
            verdict: ProbeVerdict::Impossible,
            reason: Some("the driver refuses".to_owned()),
            ..bare("validate.pool.map", None)
        },
        slow(16 << 20),
        slow(64 << 20),
    ]);
    report.notes.push("It was interrupted.".to_owned());
    report.complete = false;
    let page = table(&report, PLAIN);
    for line in [
        "  1 of 16 checks found wrong bytes\n",
        "  WRONG          validate.malloc.offsets, 4 KiB: 0x7f0025: byte 37 is 0x00 and should be 0x5a?[31m\n",
        "  could not run  validate.pool.map: the driver refuses\n",
        "  slow           copy.write.bandwidth, 16 MiB 64 MiB from NUMA node 0: 3.10 GB/s, less than 20 % of\n",
        "\nIt was interrupted.\nfailed: 17 ok, 2 slow, 1 wrong, 1 could not run; up to 3.1 GB/s to the GPU\n",
    ] {
        assert!(page.contains(line), "{line:?} is not in:\n{page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert!(!page.contains('\u{1b}'));
}

#[test]
fn all_formats_show_simulation() {
    let report = ProbeReport { simulated: true, ..report() };
    for page in [table(&report, PLAIN), curve(&report, PLAIN), svg(&report)] {
        assert!(page.contains("SIMULATED"), "{page}");
    }
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["simulated"], true);
}

#[test]
fn curve_positions() {
    let page = curve(&report(), PLAIN);
    let rows: Vec<&str> = page.lines().collect();
    let title = |words: &str| {
        rows.iter().position(|row| *row == format!("{SUBJECT}: {words}")).expect("a title")
    };
    for words in ["to the GPU", "from the GPU"] {
        // From 4 B in 7.4 µs, 0.54 MB/s, to 63 GB/s: the decades from 100 kB/s to 100 GB/s.
        let plane = &rows[title(words) + 1..][..16];
        assert!(plane[0].starts_with(" 100 GB/s │"), "{page}");
        assert!(plane[15].starts_with(" 100 kB/s │"), "{page}");
        let column = |row: &str, mark: char| row.chars().position(|found| found == mark);
        let first = plane.iter().filter_map(|row| column(row, '●')).min();
        assert_eq!(first, Some(11), "the smallest size is at the axis: {page}");
    }
    // 4 B in 0.156 µs are 25.6 MB/s: 2.41 of 6 decades above the lowest, row 15 · (1 − 2.41 / 6) = 9.
    let plane = &rows[title("to the GPU") + 1..][..16];
    assert_eq!(plane[9].chars().nth(11), Some('●'), "{page}");
    // The link's 63 GB/s are 0.2 decades below the top: row 1 after rounding.
    assert!(plane[1].contains("-----") || plane[0].contains("-----"), "{page}");
    assert!(page.contains("cuMemcpy with pinned memory is faster from 16 MiB on"));
    assert!(page.contains("cuMemcpy with pinned memory uses less CPU time from 64 KiB on"));
    // 16 MiB in 4032 µs of CPU time are 4.2 GB/s: 4.62 of 6 decades above the lowest, row 15 · (1 − 4.62 / 6) = 3.
    let per_cpu = &rows[title("to the GPU, per second of CPU time") + 1..][..16];
    assert_eq!(per_cpu[3].chars().last(), Some('●'), "{page}");
    assert!(!per_cpu.iter().any(|row| row.contains("----")), "{page}");
    assert!(rows.iter().all(|row| row.chars().count() <= 100));
}

#[test]
fn draws_narrow_and_empty_reports() {
    let narrow = Style { color: true, width: 40 };
    assert!(curve(&report(), narrow).contains('●'));
    let empty = ProbeReport { gpus: Vec::new(), results: Vec::new(), ..report() };
    assert!(curve(&empty, PLAIN).contains("Nothing was measured"));
    assert!(svg(&empty).contains("Nothing was measured"));
    assert!(table(&empty, PLAIN).ends_with("passed: 0 ok, 0 slow, 0 wrong, 0 could not run\n"));
}

#[test]
fn svg_is_well_formed() {
    let mut report = report();
    report.host.name = Some("</title><script>\"&'\u{0}\u{202e}".to_owned());
    report.notes.push("<&>".to_owned());
    let text = svg(&report);
    let document = roxmltree::Document::parse(&text).expect("well-formed");
    assert!(document.descendants().all(|node| !node.has_tag_name("script")));
    let numbers = |name: &str| -> Vec<f64> {
        let values = document.descendants().filter_map(|node| node.attribute(name));
        values.map(|value| value.parse().expect("a number")).collect()
    };
    let root = document.root_element();
    let edge = |name: &str| root.attribute(name).expect("a size").parse::<f64>().expect("a number");
    assert!(numbers("cx").iter().chain(&numbers("x")).all(|x| (0.0..=edge("width")).contains(x)));
    assert!(numbers("cy").iter().chain(&numbers("y")).all(|y| (0.0..=edge("height")).contains(y)));
    // Three sizes, two directions, the mapping and pinned memory, by time and by CPU time.
    assert_eq!(numbers("cx").len(), 24);
    let words: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    for word in [
        "mapping",
        "cuMemcpy, pinned memory",
        "what the link carries, 63.0 GB/s",
        "cuMemcpy wins from 16 MiB",
        "100 GB/s",
    ] {
        assert!(words.contains(&word), "{word}: {words:?}");
    }
}

/// Two H200 with 18 NVLinks; the second cannot access the first.
fn two_gpus() -> ProbeReport {
    let copy = report();
    let gpu = |subject: &str| ProbedGpu {
        subject: subject.to_owned(),
        bdf: copy.gpus[0].bdf,
        name: copy.gpus[0].name.clone(),
        ..ProbedGpu::default()
    };
    let (first, second) = ("GPU0 (0000:03:00.0)", "GPU1 (0000:05:00.0)");
    let pair = |subject: &str, from: &str, to: &str, allowed| ProbedPair {
        subject: subject.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
        can_access: Some(allowed),
        nvlinks: Some(18),
        class: Some("SYS".to_owned()),
        link: Some(478_125_000_000),
        ..ProbedPair::default()
    };
    let figure = |subject: &str, name: &str, bytes, unit: &str, median| ProbeResult {
        subject: subject.to_owned(),
        unit: unit.to_owned(),
        median: Some(median),
        numa: None,
        ..bare(name, Some(bytes))
    };
    let large = 256 << 20;
    ProbeReport {
        probe: ProbeKind::P2p,
        gpus: vec![gpu(first), gpu(second)],
        pairs: vec![
            pair("GPU0 -> GPU1", first, second, true),
            pair("GPU1 -> GPU0", second, first, false),
        ],
        results: vec![
            figure(first, "p2p.local.bandwidth", large, "GB/s", 2046.4),
            figure("GPU0 -> GPU1", "p2p.copy.write.bandwidth", 4096, "GB/s", 2.5),
            figure("GPU0 -> GPU1", "p2p.copy.write.bandwidth", large, "GB/s", 396.8),
            figure("GPU0 -> GPU1", "p2p.kernel.load.latency", 8, "us", 1.24),
            figure("GPU1 -> GPU0", "p2p.staged.bandwidth", large, "GB/s", 38.2),
            ProbeResult {
                subject: "GPU1 -> GPU0".to_owned(),
                verdict: ProbeVerdict::Impossible,
                required: true,
                reason: Some("CUDA does not let it".to_owned()),
                ..bare("p2p.access", None)
            },
            ProbeResult {
                subject: "GPU0 -> GPU1".to_owned(),
                verified: 3 << 20,
                ..bare("validate.copy.write", Some(1 << 20))
            },
            figure("all GPUs", "p2p.all-pairs.bandwidth", large, "GB/s", 755.4),
        ],
        ..copy
    }
}

#[test]
fn matrices_have_accessing_gpus_in_rows() {
    let wanted = "\
gdr probe p2p: node1, Linux, 6.8

COULD NOT RUN  GPU1 -> GPU0, p2p.access: CUDA does not let it

GPU0 (0000:03:00.0): NVIDIA H200
  verified 3.0 MiB in 1 check: all bytes are correct

GPU1 (0000:05:00.0): NVIDIA H200
  nothing was verified

  connection, and whether CUDA allows access
           GPU0      GPU1
  GPU0        X  NV18 yes
  GPU1  NV18 no         X

  GB/s, the copy engine writes, peer access on, 256 MiB
        GPU0      GPU1
  GPU0  2046  397  83%
  GPU1     -         -

  GB/s, peer access off: staged through the host, 256 MiB
             GPU0  GPU1
  GPU0          -     -
  GPU1  38.2   8%     -

  us, a kernel waits for one load
        GPU0  GPU1
  GPU0     -  1.24
  GPU1     -     -

  all GPUs every pair at once: 755 GB/s

failed: 7 ok, 0 slow, 0 wrong, 1 could not run; up to 396.8 GB/s from GPU to GPU
";
    assert_eq!(table(&two_gpus(), PLAIN), wanted);
}

#[test]
fn pairs_with_figures_have_panels() {
    let report = two_gpus();
    let page = curve(&report, PLAIN);
    assert!(
        page.contains("GPU0 -> GPU1\n") && page.contains("what the link carries, 478.1 GB/s"),
        "{page}"
    );
    assert!(page.contains("through the host, peer access off"), "{page}");
    assert!(svg(&report).contains("GPU1 -&gt; GPU0"));
}

/// A host probe of one GPU: two sizes, and the pipeline.
fn host() -> ProbeReport {
    let copy = report();
    let figure = |name: &str, bytes, unit: &str, median| ProbeResult {
        unit: unit.to_owned(),
        median: Some(median),
        numa: None,
        ..bare(name, Some(bytes))
    };
    let chunk = |name: &str, chunk, median| ProbeResult {
        chunk: Some(chunk),
        ..figure(name, 64 << 20, "GB/s", median)
    };
    ProbeReport {
        probe: ProbeKind::Host,
        gpus: vec![ProbedGpu { backend: None, backends: Vec::new(), ..copy.gpus[0].clone() }],
        results: vec![
            figure("host.pageable.h2d.latency", 4, "us", 5.4),
            figure("host.pinned.h2d.latency", 4, "us", 5.1),
            figure("host.pageable.h2d.latency", 64 << 20, "us", 4000.0),
            figure("host.pageable.h2d.bandwidth", 64 << 20, "GB/s", 16.8),
            figure("host.pinned.h2d.latency", 64 << 20, "us", 1210.0),
            figure("host.pinned.h2d.bandwidth", 64 << 20, "GB/s", 55.43),
            figure("host.extra-copy.h2d.bandwidth", 64 << 20, "GB/s", 8.24),
            figure("host.pinned.both.bandwidth", 64 << 20, "GB/s", 100.4),
            figure("host.kernel.load.bandwidth", 64 << 20, "GB/s", 51.3),
            figure("host.kernel.load.latency", 8, "us", 1.131),
            chunk("host.staged.h2d.serial.bandwidth", 256 << 10, 6.2),
            chunk("host.staged.h2d.overlapped.bandwidth", 256 << 10, 9.9),
            ProbeResult {
                unit: "bytes".to_owned(),
                median: Some(f64::from(256 << 10)),
                numa: None,
                ..bare("host.staged.h2d.best-chunk", None)
            },
        ],
        ..copy
    }
}

#[test]
fn kinds_of_host_memory_are_columns() {
    let wanted = "
  latency to the GPU, us
  size    pageable  pinned
  4 B         5.40    5.10
  64 MiB      4000    1210

  bandwidth to the GPU, GB/s
  size    pageable  pinned  two buffers
  4 B            -       -            -
  64 MiB      16.8    55.4         8.24

  bandwidth of both directions at once (the sum), GB/s
  size    pinned  registered  write-combined
  64 MiB     100           -               -

  a kernel on pinned host memory loads 51.3 GB/s, waits 1.13 us for one load

  64 MiB through pinned chunks, as MPI libraries copy, GB/s
  chunk    to: serial  to: overlapped  from: serial  from: overlapped
  256 KiB        6.20            9.90             -                 -
";
    let page = table(&host(), PLAIN);
    assert!(page.contains(wanted), "{page}");
    assert!(page.contains("best chunk to the GPU: 256 KiB"), "{page}");
    assert!(page.ends_with("up to 55.4 GB/s to the GPU\n"), "{page}");
    assert!(curve(&host(), PLAIN).contains("● pinned memory"));
}

/// Replaces a string everywhere, so that references stay valid.
fn replaced(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::String(text) if text == old => *text = new.to_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| replaced(value, old, new)),
        Value::Object(values) => values.values_mut().for_each(|value| replaced(value, old, new)),
        _ => {}
    }
}

fn strings(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(found.insert(text.clone())),
        Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        Value::Object(values) => values.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}

/// Names from another machine or a library may contain anything.
#[test]
fn hostile_strings_cannot_forge_lines() {
    let mut drawn = 0;
    for report in [report(), two_gpus(), host(), two_nics()] {
        let whole = serde_json::to_value(&report).expect("JSON");
        let mut found = BTreeSet::new();
        strings(&whole, &mut found);
        for old in found {
            let mut hostile = whole.clone();
            replaced(
                &mut hostile,
                &old,
                &format!("{old}\u{1b}[2J\nFORGED\u{9b}\u{202e}\u{200b}<script>"),
            );
            let Ok(hostile) = serde_json::from_value::<ProbeReport>(hostile) else {
                continue;
            };
            for page in [table(&hostile, PLAIN), curve(&hostile, PLAIN), svg(&hostile)] {
                assert!(!page.lines().any(|line| line.starts_with("FORGED")), "{old}: {page}");
                assert!(
                    !page
                        .contains(|c: char| c != '\n'
                            && (c.is_control() || "\u{202e}\u{200b}".contains(c))),
                    "{old}: {page}"
                );
            }
            assert!(!svg(&hostile).contains("<script"), "{old}");
            drawn += 1;
        }
    }
    assert!(drawn > 60, "{drawn} reports were drawn");
}
