//! Names the shared library for the dynamic linker. A program that is linked with it asks for this
//! name, so the number changes when the interface is no longer compatible.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system != "macos" && system != "windows") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libleeway_utp.so.0");
    }
}
