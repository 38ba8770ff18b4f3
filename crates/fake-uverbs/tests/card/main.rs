//! The card that executes, driven by Debian's own libibverbs and libmlx5: what is posted moves bytes and completes as the manual
//! pages and the InfiniBand specification say, and what is wrong fails with the right status.

mod bench;
mod device;
mod errors;
#[path = "../inside/mod.rs"]
mod inside;
mod operations;
mod work;

/// With this the card executes.
const CARD: (&str, &str) = ("FAKE_UVERBS_CARD", "1");
