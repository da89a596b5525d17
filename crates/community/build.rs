//! Hashes the sources that decide what a run gives, so that results can be kept under the version that made them.

use std::path::{Path, PathBuf};

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let mut files = Vec::new();
    for folder in ["../units/src", "../selection/src", "src"] {
        sources(&here.join(folder), &mut files);
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in &files {
        let text = std::fs::read(file).unwrap_or_default();
        // FNV-1a, with the length first, so that what follows cannot be taken for a part of it.
        for &byte in (text.len() as u64).to_le_bytes().iter().chain(&text) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=LEEWAY_COMMUNITY_HASH={hash:016x}");
}

/// Every file in `folder`; none if the crate was unpacked by itself and nobody is beside it.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        files.push(entry.path());
    }
}
