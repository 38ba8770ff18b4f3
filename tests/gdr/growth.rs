//! Work grows with an input, not with the product of two of its counts: the CPU time of each is measured with both counts large, and with
//! each of them at a tenth.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::crowded::{Product, products};
use crate::support::scratch;

/// With both counts the work may be that of each of them alone, and half as much more for a machine that others use. A product is five times
/// as much.
const MOST: f64 = 1.5;

/// Seconds that no figure can tell apart.
const NOISE: f64 = 0.1;

/// Seconds of CPU time after which the kernel ends a run.
const LIMIT: u32 = 60;

/// The CPU time of a run, in seconds.
fn cpu_time(args: &[&str], files: &[PathBuf]) -> f64 {
    let gdr =
        std::env::var_os("GDR_TEST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_gdr").into());
    let script = format!("ulimit -t {LIMIT} -v 4000000; \"$0\" \"$@\" >/dev/null 2>&1; times");
    let output = Command::new("/bin/sh")
        .args(["-c", &script])
        .arg(gdr)
        .args(args)
        .args(files)
        .stdin(Stdio::null())
        .output()
        .expect("a shell starts");
    let text = String::from_utf8_lossy(&output.stdout);
    // `0m0.010000s 0m0.000000s`, of the shell and then of its children.
    let times = text.lines().nth(1).expect("the times of the children");
    let seconds = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').expect("minutes");
        60.0 * minutes.parse::<f64>().expect("a number") + seconds.parse::<f64>().expect("a number")
    };
    times.split(' ').map(seconds).sum()
}

fn written(directory: &Path, files: &[Vec<u8>]) -> Vec<PathBuf> {
    let write = |(at, bytes): (usize, &Vec<u8>)| {
        let path = directory.join(format!("{at}.json"));
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    files.iter().enumerate().map(write).collect()
}

/// What is wrong, if the work is a product.
fn grows(product: &Product) -> Option<String> {
    let [a, b] = product.counts;
    let time = |counts: [usize; 2]| {
        let directory = scratch();
        let files = written(directory.path(), &(product.files)(counts));
        cpu_time(product.args, &files)
    };
    let (first, second, both) = (time([a, b / 10]), time([a / 10, b]), time([a, b]));
    (both > MOST * (first + second) + NOISE).then(|| {
        format!(
            "{}: {both:.2} s for {a} and {b}, {first:.2} s and {second:.2} s with a tenth of the second and of the first",
            product.name
        )
    })
}

#[test]
#[ignore = "slow: large inputs"]
fn work_is_no_product_of_two_counts() {
    let products: Vec<String> = products().iter().filter_map(grows).collect();
    assert!(products.is_empty(), "{products:#?}");
}

/// The same with as much as is read of such inputs.
#[test]
#[ignore = "minutes: inputs of several MiB"]
fn manual_work_is_no_product_of_large_counts() {
    let larger =
        products().into_iter().map(|product| Product { counts: product.larger, ..product });
    let products: Vec<String> = larger.filter_map(|product| grows(&product)).collect();
    assert!(products.is_empty(), "{products:#?}");
}

/// Rows of a matrix that each look like the head of the rest: the text grows ninefold, the work with it.
#[test]
fn rows_of_a_matrix_are_read_once() {
    let time = |rows: usize| {
        let rows: String = (1..rows).map(|at| format!("GPU0{}\n", " X".repeat(at))).collect();
        let text =
            format!("01:00.0 3D controller [0302]: NVIDIA Corporation A [10de:2330]\n\n{rows}");
        let directory = scratch();
        let files = written(directory.path(), &[text.into_bytes()]);
        cpu_time(&["topo", "--from"], &files)
    };
    let (few, many) = (time(250), time(750));
    assert!(many <= 12.0 * few + NOISE, "{few:.2} s for 250 rows, {many:.2} s for 750");
}

/// Lines that have the beginning of a product's name at each word: they grow eightfold, and the work with them.
#[test]
fn names_of_products_in_a_line_are_read_once() {
    let time = |words: usize| {
        let text = format!("{}\n", "NVIDIA ".repeat(words)).repeat(40);
        let directory = scratch();
        let files = written(directory.path(), &[text.into_bytes()]);
        cpu_time(&["topo", "--from"], &files)
    };
    let (few, many) = (time(280), time(2_240));
    assert!(many <= 12.0 * few + NOISE, "{few:.2} s for 280 words, {many:.2} s for 2240");
}
