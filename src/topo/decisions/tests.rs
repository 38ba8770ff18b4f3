//! Tests of levels, numbers and lists as NCCL parses them.

use super::rules::Rules;
use super::variables::{number, selects};
use crate::model::NcclPath;

#[test]
fn levels_are_names_in_capitals_or_old_numbers() {
    // By ncclGetLevel of each version; topoPathTypeStr has C2C from 2.26 on, P2C from 2.27 on.
    let cases = [
        ("2.18.3", "PHB", Some(NcclPath::Phb)),
        ("2.18.3", "C2C", None),
        ("2.26.2", "C2C", Some(NcclPath::C2c)),
        ("2.26.2", "P2C", None),
        ("2.27.3", "P2C", Some(NcclPath::P2c)),
        ("2.27.3", "phb", None),
        ("2.27.3", "NET", None),
        ("2.27.3", "0", Some(NcclPath::Loc)),
        ("2.27.3", "2", Some(NcclPath::Pxb)),
        ("2.27.3", "5", Some(NcclPath::Sys)),
        ("2.27.3", "99", Some(NcclPath::Sys)),
        ("2.27.3", "-1", None),
        ("2.27.3", "", None),
    ];
    for (version, value, level) in cases {
        let rules = Rules::of(version).expect("rules");
        assert_eq!(rules.level(value), level, "{version} {value}");
    }
}

#[test]
fn versions_have_the_rules_of_their_minor_version() {
    for (version, tag) in [
        ("2.18.1", Some("v2.18.6-1")),
        ("2.27", Some("v2.27.7-1")),
        ("2.31.0", Some("v2.30.7-1")),
        ("3.0", Some("v2.30.7-1")),
        ("2.17.1", None),
        ("2", None),
        ("x", None),
    ] {
        assert_eq!(Rules::of(version).map(|rules| rules.tag), tag, "{version}");
    }
}

#[test]
fn numbers_are_those_of_strtol() {
    for (text, value) in [
        ("1", Some(1)),
        ("-2", Some(-2)),
        ("0x10", Some(16)),
        ("010", Some(8)),
        (" 1x", Some(1)),
        ("x", None),
        ("", None),
    ] {
        assert_eq!(number(text), value, "{text:?}");
    }
}

#[test]
fn a_list_of_nics_selects_by_start_whole_name_or_exclusion() {
    for (list, device, port, is_selected) in [
        ("mlx5_1", "mlx5_1", 1, true),
        ("mlx5_1", "mlx5_10", 1, true),
        ("=mlx5_1", "mlx5_10", 1, false),
        ("=mlx5_1,mlx5_10", "mlx5_10", 1, true),
        ("^mlx5_1", "mlx5_10", 1, false),
        ("^=mlx5_1", "mlx5_10", 1, true),
        ("mlx5_1:2", "mlx5_1", 1, false),
        ("mlx5_1:2", "mlx5_1", 2, true),
        ("", "mlx5_1", 1, true),
        ("ib", "mlx5_1", 1, false),
    ] {
        assert_eq!(selects(list, device, Some(port)), is_selected, "{list} {device}:{port}");
    }
}
