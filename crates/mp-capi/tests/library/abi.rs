//! The library file and the headers match those of libmp.

use crate::clib::{check_dynamic_section, check_layout, exported};
use crate::support::{headers, shipped};

#[test]
#[ignore = "needs nm and readelf"]
fn exports_exactly_these_functions() {
    let expected: Vec<&str> = include_str!("exported.txt").lines().collect();
    assert_eq!(exported(&shipped()), expected);
}

#[test]
#[ignore = "needs nm and readelf"]
fn soname_and_dependencies() {
    check_dynamic_section(&shipped(), "libmp.so.2");
}

#[test]
#[ignore = "needs a C compiler, a C++ compiler, libibverbs-dev, MPICH"]
fn headers_match_version_2_0() {
    let mut arguments = headers();
    arguments.push("-I/usr/include/x86_64-linux-gnu/mpich".to_owned());
    check_layout(&shipped(), "libmp", &arguments);
}
