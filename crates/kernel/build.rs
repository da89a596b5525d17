//! Compiles the BPF programs; the laws come from `control/` through `include`.

use libbpf_cargo::SkeletonBuilder;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

fn main() {
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("set by cargo"));
    let laws = folder.join("include");
    let laws = laws.canonicalize().unwrap_or(laws);
    for dir in [&laws, &folder.join("src/bpf")] {
        println!("cargo:rerun-if-changed={}", dir.display());
        for entry in std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())).flatten() {
            println!("cargo:rerun-if-changed={}", entry.path().display());
        }
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let laws = prepare(&laws, &out.join("laws"));
    let args: [OsString; 7] = [
        "-mcpu=v3".into(),
        "-Wall".into(),
        "-Wextra".into(),
        "-Wno-unused-parameter".into(),
        "-Werror".into(),
        "-I".into(),
        laws.into(),
    ];
    for name in ["leeway", "sockets"] {
        compile(&folder.join(format!("src/bpf/{name}.bpf.c")), &out.join(format!("{name}.bpf.o")), &args);
    }
}

/// A copy of the headers in which functions that the verifier has to judge alone have another storage class; not a
/// letter of their bodies changes.
fn prepare(laws: &Path, copy: &Path) -> PathBuf {
    let mut changed = 0;
    std::fs::create_dir_all(copy).unwrap_or_else(|e| panic!("{}: {e}", copy.display()));
    for entry in std::fs::read_dir(laws).expect("was read above").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "h") {
            let text =
                std::fs::read_to_string(entry.path()).unwrap_or_else(|e| panic!("{:?}: {e}", entry.path()));
            let alone = ALONE.iter().fold(text.clone(), |text, function| {
                text.replace(&format!("LEEWAY_INLINE {function}("), &format!("LEEWAY_ALONE {function}("))
            });
            changed += usize::from(alone != text);
            std::fs::write(copy.join(entry.file_name()), alone)
                .expect("the build's own folder can be written");
        }
    }
    assert_eq!(changed, ALONE.len(), "the laws no longer have {ALONE:?}");
    copy.to_owned()
}

/// The cube root's loop has 2^21 paths, which the verifier would walk with all that surrounds them.
const ALONE: [&str; 1] = ["leeway_u32 leeway_cube_root"];

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
