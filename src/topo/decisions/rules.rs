//! The rules that differ between versions of NCCL, and the lines of src/graph/paths.cc that hold them.

use crate::model::NcclPath;

/// The lines in the last release of one minor version.
pub struct Rules {
    pub minor: u32,
    pub tag: &'static str,
    /// The default level for peer to peer, and the comparison with it (`ncclTopoCheckP2p`).
    pub p2p_level: u32,
    pub p2p: u32,
    /// The rule for sends, the default level for GPUDirect RDMA, and the comparison with it (`ncclTopoCheckGdr`).
    pub send: u32,
    pub gdr_level: u32,
    pub gdr: u32,
}

const fn rules(minor: u32, tag: &'static str, lines: [u32; 5]) -> Rules {
    let [p2p_level, p2p, send, gdr_level, gdr] = lines;
    Rules { minor, tag, p2p_level, p2p, send, gdr_level, gdr }
}

const ALL: [Rules; 13] = [
    rules(18, "v2.18.6-1", [277, 300, 362, 380, 392]),
    rules(19, "v2.19.4-1", [277, 300, 363, 382, 394]),
    rules(20, "v2.20.5-1", [277, 300, 380, 399, 411]),
    rules(21, "v2.21.5-1", [279, 302, 382, 401, 413]),
    rules(22, "v2.22.3-1", [281, 304, 384, 403, 415]),
    rules(23, "v2.23.4-1", [277, 295, 375, 394, 406]),
    rules(24, "v2.24.3-1", [297, 315, 396, 415, 427]),
    rules(25, "v2.25.1-1", [297, 315, 396, 415, 427]),
    rules(26, "v2.26.6-1", [297, 315, 399, 418, 439]),
    rules(27, "v2.27.7-1", [315, 326, 411, 430, 449]),
    rules(28, "v2.28.9-1", [319, 330, 434, 453, 472]),
    rules(29, "v2.29.7-1", [323, 334, 441, 460, 474]),
    rules(30, "v2.30.7-1", [356, 368, 492, 511, 528]),
];

impl Rules {
    /// The newest that gdr knows.
    pub fn newest() -> &'static Self {
        &ALL[ALL.len() - 1]
    }

    /// The rules of a version such as `2.27.3`; those of the newest for later ones, none before 2.18.
    pub fn of(version: &str) -> Option<&'static Self> {
        let mut parts = version.split('.');
        let major: u32 = parts.next()?.parse().ok()?;
        let minor: u32 = parts.next()?.parse().ok()?;
        match major {
            2 if minor > Self::newest().minor => Some(Self::newest()),
            2 => ALL.iter().find(|rules| rules.minor == minor),
            3.. => Some(Self::newest()),
            _ => None,
        }
    }

    pub fn line(&self, line: u32) -> String {
        format!("NCCL {}, src/graph/paths.cc:{line}", self.tag)
    }

    /// True if this version has such a path.
    fn has(&self, path: NcclPath) -> bool {
        match path {
            NcclPath::C2c => self.minor >= 26,
            NcclPath::P2c => self.minor >= 27,
            _ => true,
        }
    }

    /// Parses a level: a name in capitals, or a number of NCCL before 2.5. NCCL ignores other values (`ncclGetLevel`).
    pub fn level(&self, value: &str) -> Option<NcclPath> {
        use NcclPath::{C2c, Loc, Nvb, Nvl, P2c, Phb, Pix, Pxb, Pxn, Sys};
        let all = [Loc, Nvl, Nvb, C2c, Pix, Pxb, P2c, Pxn, Phb, Sys];
        let named = all.into_iter().find(|path| path.letters() == value && self.has(*path));
        named.or_else(|| {
            value.chars().next().filter(char::is_ascii_digit)?;
            let number = super::variables::number(value)?;
            [Loc, Pix, Pxb, Phb, Sys].into_iter().nth(usize::try_from(number).ok()?).or(Some(Sys))
        })
    }
}
