//! Gives the library the name that programs linked against libmp ask the loader for, and keeps it loaded: what it had registered with
//! CUDA must not lose its owner to a `dlclose`.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmp.so.2");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
