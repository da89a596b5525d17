//! Compiles the BPF programs, and what user space shares with them; the laws come from `control/` through `include`.

use libbpf_cargo::SkeletonBuilder;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

fn main() {
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    let laws = folder.join("include");
    let laws = laws.canonicalize().unwrap_or(laws);
    for dir in [&laws, &folder.join("src/bpf"), &folder.join("tests/bpf")] {
        println!("cargo:rerun-if-changed={}", dir.display());
        for entry in std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())).flatten() {
            println!("cargo:rerun-if-changed={}", entry.path().display());
        }
    }
    println!("cargo:rerun-if-changed=src/way.c");
    println!("cargo:rerun-if-env-changed=CLANG");
    let every_law = every_law(&laws.join("leeway_laws.h"));
    std::fs::write(out.join("leeway_every_law.h"), every_law).expect("cargo's folder can be written");
    let args: [OsString; 11] = [
        "-mcpu=v3".into(),
        "-Wall".into(),
        "-Wextra".into(),
        "-Wno-unused-parameter".into(),
        "-Werror".into(),
        "-I".into(),
        laws.clone().into(),
        "-I".into(),
        folder.join("src/bpf").into(),
        "-I".into(),
        out.clone().into(),
    ];
    for name in ["leeway", "receive", "send", "sockets"] {
        compile(&folder.join(format!("src/bpf/{name}.bpf.c")), &out.join(format!("{name}.bpf.o")), &args);
    }
    cc::Build::new()
        .file(folder.join("src/way.c"))
        .include(&laws)
        .include(folder.join("src/bpf"))
        .std("c11")
        .extra_warnings(true)
        .compile("leeway_kernel_way");
    // What the tests of refusals load.
    for name in ["refused", "foreign", "old"] {
        compile(&folder.join(format!("tests/bpf/{name}.bpf.c")), &out.join(format!("{name}.bpf.o")), &args);
    }
}

/// What the programs need of the table of laws, which is for user space: its headers, and the names of its rows.
fn every_law(table: &Path) -> String {
    let text = std::fs::read_to_string(table).unwrap_or_else(|e| panic!("{}: {e}", table.display()));
    let headers: String = text
        .lines()
        .filter(|line| line.starts_with("#include \"leeway_"))
        .map(|line| format!("{line}\n"))
        .collect();
    let rows = text.lines().filter(|line| line.starts_with([' ', '\t'])).filter_map(|line| {
        let (row, rest) = line.trim_start().split_once('(')?;
        row.starts_with("LEEWAY_LAW_ROW").then(|| rest.split(',').next())?
    });
    let rows: String = rows.map(|name| format!(" LAW({name})")).collect();
    assert!(!rows.is_empty(), "{}: no line begins with LEEWAY_LAW_ROW", table.display());
    format!("{headers}#define LEEWAY_EVERY_LAW(LAW){rows}\n")
}

fn compile(source: &Path, object: &Path, args: &[OsString]) {
    let mut builder = SkeletonBuilder::new();
    builder.source(source).obj(object).clang_args(args);
    if let Some(clang) = clang() {
        builder.clang(clang);
    }
    if let Err(error) = builder.build() {
        panic!(
            "{}: {error:#}\nclang 16 or newer with a BPF target is needed (tools/setup.sh build)",
            source.display()
        );
    }
}

/// `CLANG`, or the newest of Debian's versions; otherwise what is called clang.
fn clang() -> Option<PathBuf> {
    let chosen = std::env::var_os("CLANG").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let find =
        |name: &str| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    chosen.or_else(|| ["clang-16", "clang-17", "clang-18", "clang-19", "clang-20"].into_iter().find_map(find))
}
