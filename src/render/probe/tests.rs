//! Every format of one report that was written by hand, against what a person wrote it should look like.

use super::sample::{SUBJECT, bare, report};
use super::{curve, svg, table};
use crate::model::{ProbeReport, ProbeResult, ProbeVerdict};
use crate::render::Style;

const PLAIN: Style = Style {
    color: false,
    width: 100,
};

#[test]
fn the_table_is_this_one() {
    let wanted = "\
gdr probe copy: node1, Linux, 6.8

GPU0 (0000:3b:00.0): NVIDIA H200
  mapped by rm, write-combined; copy kernels: avx512 to the GPU, avx512 from it
  not by gdrdrv: /dev/gdrdrv is not there
  its PCI Express link carries 63.0 GB/s; it is on NUMA node 0
  verified 128.3 MiB in 15 checks: every byte is right

  medians, CPUs of NUMA node 0
             to the GPU                              from the GPU
       size  mapped us     GB/s pinned us pageable   mapped us     GB/s pinned us pageable
        4 B      0.156    0.026      6.00        -        1.04    0.004      7.40        -
     64 KiB       2.85     23.0      20.6        -        6.40     10.2      15.3        -
     16 MiB        504     33.3       310        -        1069     15.7       305        -
  cuMemcpy with pinned memory is faster to the GPU from 16 MiB on

  us                          median        p5       p95       max
  pin 64 KiB                     141       127       212       565
  round trip with a kernel      1.93      1.74      2.90      7.72

all well: 16 ok, 0 slow, 0 wrong, 0 impossible
";
    assert_eq!(table(&report(), PLAIN), wanted);
}

#[test]
fn what_is_wrong_is_said_with_its_address_and_ends_the_page() {
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
        "  WRONG       validate.malloc.offsets, 4 KiB: 0x7f0025: byte 37 is 0x00 and should be 0x5a?[31m\n",
        "  impossible  validate.pool.map: the driver refuses\n",
        "  slow        copy.write.bandwidth, 16 MiB 64 MiB from NUMA node 0: 3.10 GB/s, less than 20 % of the\n",
        "\nIt was interrupted.\nfailed: 16 ok, 2 slow, 1 wrong, 1 impossible; up to 3.1 GB/s to the GPU\n",
    ] {
        assert!(page.contains(line), "{line:?} is not in:\n{page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    assert!(!page.contains('\u{1b}'));
}

#[test]
fn every_format_says_that_it_is_simulated() {
    let report = ProbeReport {
        simulated: true,
        ..report()
    };
    for page in [table(&report, PLAIN), curve(&report, PLAIN), svg(&report)] {
        assert!(page.contains("SIMULATED"), "{page}");
    }
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["simulated"], true);
}

#[test]
fn the_curve_has_its_marks_where_the_figures_are() {
    let page = curve(&report(), PLAIN);
    let rows: Vec<&str> = page.lines().collect();
    let title = |words: &str| {
        rows.iter()
            .position(|row| *row == format!("{SUBJECT}: {words}"))
            .expect("a title")
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
    assert!(rows.iter().all(|row| row.chars().count() <= 100));
}

#[test]
fn narrow_and_empty_reports_draw_too() {
    let narrow = Style { color: true, width: 40 };
    assert!(curve(&report(), narrow).contains('●'));
    let empty = ProbeReport {
        gpus: Vec::new(),
        results: Vec::new(),
        ..report()
    };
    assert!(curve(&empty, PLAIN).contains("Nothing was measured"));
    assert!(svg(&empty).contains("Nothing was measured"));
    assert!(table(&empty, PLAIN).ends_with("all well: 0 ok, 0 slow, 0 wrong, 0 impossible\n"));
}

#[test]
fn the_picture_is_well_formed_whatever_the_names() {
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
    assert!(
        numbers("cx")
            .iter()
            .chain(&numbers("x"))
            .all(|x| (0.0..=edge("width")).contains(x))
    );
    assert!(
        numbers("cy")
            .iter()
            .chain(&numbers("y"))
            .all(|y| (0.0..=edge("height")).contains(y))
    );
    // Three sizes, two directions, the mapping and pinned memory.
    assert_eq!(numbers("cx").len(), 12);
    let words: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    for word in [
        "mapping",
        "cuMemcpy, pinned memory",
        "PCI Express link, 63.0 GB/s",
        "cuMemcpy wins from 16 MiB",
        "100 GB/s",
    ] {
        assert!(words.contains(&word), "{word}: {words:?}");
    }
}
