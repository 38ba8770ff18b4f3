//! Gives the library the name that programs linked against gdrcopy ask the loader for, and keeps it
//! loaded: its copying threads must not lose their code to a `dlclose`.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgdrapi.so.2");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
