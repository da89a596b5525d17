//! Hashes the sources that decide the outcome of a run, so that stored results can be labelled
//! with the version that made them.

use std::path::{Path, PathBuf};

/// Crates whose sources decide. Of other crates only the version of the random generator counts.
const CRATES: [&str; 6] = ["units", "control", "queue", "link", "share", "sim"];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let root = here.join("../..");
    let mut files = Vec::new();
    headers(&here.join("../control/include"), &mut files);
    for name in CRATES {
        let folder = here.join("..").join(name);
        sources(&folder.join("src"), &mut files);
        add(folder.join("build.rs"), &mut files);
    }
    // A crate that was unpacked by itself has no other crates beside it.
    if files.is_empty() {
        sources(&here.join("src"), &mut files);
    }
    let mut hash = Fnv::new();
    for file in &files {
        let name = file.strip_prefix(&here).unwrap_or(file);
        hash.add(name.to_string_lossy().replace('\\', "/").as_bytes());
        hash.add(&std::fs::read(file).unwrap_or_default());
    }
    let lock = root.join("Cargo.lock");
    hash.add(versions(&std::fs::read_to_string(&lock).unwrap_or_default()).as_bytes());
    println!("cargo:rerun-if-changed={}", lock.display());
    println!("cargo:rustc-env=LEEWAY_ENGINE_HASH={:016x}", hash.0);
}

/// Adds the C headers of the laws.
fn headers(folder: &Path, files: &mut Vec<PathBuf>) {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    println!("cargo:rerun-if-changed={}", real.display());
    for path in entries(folder) {
        if path.extension().is_some_and(|extension| extension == "h") {
            add(path, files);
        }
    }
}

/// Adds all files below `folder`.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo:rerun-if-changed={}", folder.display());
    for path in entries(folder) {
        match path.is_dir() {
            true => sources(&path, files),
            false => add(path, files),
        }
    }
}

fn add(file: PathBuf, files: &mut Vec<PathBuf>) {
    if file.is_file() {
        println!("cargo:rerun-if-changed={}", file.display());
        files.push(file);
    }
}

/// The entries of `folder`, sorted by name; empty if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The versions of `rand_xoshiro` and of the `rand_core` that it uses. Other entries of the lock
/// file do not decide: the lock file of a source distribution has fewer of them.
fn versions(lock: &str) -> String {
    let package = |name: &str| {
        let name = format!("name = \"{name}\"\n");
        lock.split("[[package]]").find(|package| package.contains(&name)).unwrap_or_default()
    };
    let value = |package: &str, before: &str, after: &str| {
        let mut lines = package.lines().map(str::trim);
        lines.find_map(|line| Some(line.strip_prefix(before)?.trim_end_matches(after).to_owned()))
    };
    let generator = package("rand_xoshiro");
    let version = value(generator, "version = \"", "\"").unwrap_or_default();
    // Where the lock file has several versions, the user names the one it uses: "rand_core
    // 0.10.1".
    let core = value(generator, "\"rand_core ", "\",")
        .or_else(|| value(package("rand_core"), "version = \"", "\""))
        .unwrap_or_default();
    format!("rand_xoshiro {version} rand_core {core}")
}

/// FNV-1a with 64 bits.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    /// Adds `bytes` after their length, so that two lists of parts cannot give the same hash by
    /// chance.
    fn add(&mut self, bytes: &[u8]) {
        for &byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
