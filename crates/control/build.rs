//! Compiles the C laws of `control/` into this crate. `include` is a link to that folder, so that
//! a package of the crate contains the laws.

use std::path::{Path, PathBuf};

fn main() {
    let headers = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo")).join("include");
    // Changes are in the folder, not in the link to it.
    let headers = headers.canonicalize().unwrap_or(headers);
    println!("cargo:rerun-if-changed=src/laws.c");
    println!("cargo:rerun-if-changed={}", headers.display());
    for header in files(&headers) {
        println!("cargo:rerun-if-changed={}", header.display());
    }
    // Links a shared library of laws from this folder instead, such as the mutants of
    // control/mutate.py.
    println!("cargo:rerun-if-env-changed=LEEWAY_LAWS_DIR");
    if let Some(dir) = std::env::var_os("LEEWAY_LAWS_DIR") {
        println!("cargo:rustc-link-search=native={}", Path::new(&dir).display());
        println!("cargo:rustc-link-lib=dylib=leeway_laws");
        return;
    }
    // The laws are the inner loop of the simulator, so they are optimised in every profile.
    cc::Build::new()
        .file("src/laws.c")
        .include(&headers)
        .std("c11")
        .opt_level(3)
        .extra_warnings(true)
        .compile("leeway_laws");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "h")).collect()
}
