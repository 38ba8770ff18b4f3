//! What `gdr --version` prints, and what it adds with `--verbose`.

use std::sync::LazyLock;

/// The version and how this binary was built.
pub fn verbose() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let version = env!("CARGO_PKG_VERSION");
    // `cargo xtask dist` sets both.
    let commit = option_env!("GDR_COMMIT").unwrap_or("unknown (not built by 'cargo xtask dist')");
    let glibc = option_env!("GDR_GLIBC").unwrap_or("that of the machine it was built on");
    let (arch, env) =
        (std::env::consts::ARCH, if cfg!(target_env = "musl") { "musl" } else { "gnu" });
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!(
        "{version}\ncommit: {commit}\ntarget: {arch}-unknown-linux-{env}\nglibc: {glibc}\nprofile: {profile}\n\
         features: none (gdr has no optional parts)"
    )
}
