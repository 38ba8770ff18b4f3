//! Sets gdrcopy's SONAME, and keeps the library loaded: its copy threads must not lose their code
//! to a `dlclose`.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libgdrapi.so.2");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
