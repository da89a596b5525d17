//! The programs of `examples/` that drive laws in C, C++ and Rust build without warnings, and
//! their tables show what the laws are known to do.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Compiles one source file, with all warnings as errors.
fn compile(compiler: &str, standard: &str, source: &str, folder: &Path) -> PathBuf {
    let binary = folder.join("program");
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2"]);
    command.arg("-I").arg(format!("{TOP}/control")).arg(format!("{TOP}/examples/{source}"));
    succeed(command.arg("-o").arg(&binary));
    binary
}

/// The numbers of a table by rows, without words.
fn table(output: &Output) -> Vec<Vec<f64>> {
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().skip(1);
    rows.map(|row| row.split_whitespace().filter_map(|word| word.parse().ok()).collect()).collect()
}

fn refuses(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{command:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn duel_in_c_shows_who_yields() {
    let folder = tempfile::tempdir().unwrap();
    let duel = compile("cc", "-std=c11", "c/duel.c", folder.path());
    let while_both = |first: &str, second: &str| {
        let rows = table(&succeed(Command::new(&duel).args([first, second])));
        assert_eq!(rows.len(), 8, "40 s in steps of 5 s");
        // The rows from 15 to 30 s.
        let sum = |column: usize| rows[3..6].iter().map(|row| row[column]).sum::<f64>() / 3.0;
        (sum(1), sum(2))
    };
    let (nice, cubic) = while_both("nice", "cubic");
    assert!(nice < 0.5 && cubic > 9.4, "{nice} and {cubic} Mbit/s");
    let (first, second) = while_both("newreno", "newreno");
    assert!(first > 3.0 && second > 3.0 && first + second > 9.5, "{first} and {second} Mbit/s");
    assert!(
        refuses(Command::new(&duel).args(["ledbad", "cubic"])).contains("no law ledbad; there are: newreno")
    );
    assert!(refuses(&mut Command::new(&duel)).starts_with("usage: duel LAW LAW"));
}

/// A user takes the archive of `make headers` alone.
#[test]
fn headers_from_the_archive_install_and_compile() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let made = succeed(Command::new(format!("{TOP}/tools/headers.sh")).arg(at("made")));
    let archive = String::from_utf8(made.stdout).unwrap();
    succeed(
        Command::new("tar").args(["--strip-components=1", "-xzf", archive.trim()]).current_dir(folder.path()),
    );
    succeed(
        Command::new("make")
            .args(["install", "PREFIX=/opt/laws"])
            .arg("DESTDIR=root")
            .current_dir(folder.path()),
    );

    let mut flags = Command::new("pkg-config");
    flags
        .env("PKG_CONFIG_LIBDIR", at("root/opt/laws/share/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", at("root"));
    let version = succeed(flags.args(["--modversion", "leeway"]));
    assert_eq!(String::from_utf8_lossy(&version.stdout).trim(), env!("CARGO_PKG_VERSION"));
    let mut flags = Command::new("pkg-config");
    flags
        .env("PKG_CONFIG_LIBDIR", at("root/opt/laws/share/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", at("root"));
    let flags = succeed(flags.args(["--cflags", "leeway"]));
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror"]);
    compile.args(String::from_utf8_lossy(&flags.stdout).split_whitespace());
    succeed(compile.arg(at("examples/duel.c")).arg("-o").arg(at("duel")));
    assert_eq!(table(&succeed(Command::new(at("duel")).args(["ledbat", "cubic"]))).len(), 8);

    succeed(
        Command::new("make")
            .args(["uninstall", "PREFIX=/opt/laws"])
            .arg("DESTDIR=root")
            .current_dir(folder.path()),
    );
    assert!(!at("root/opt/laws/include/leeway").exists());
}

/// Checks the last row of a sender alone under LEDBAT: rate in Mbit/s and queuing delay in ms.
fn alone_at_target(output: &Output) {
    let rows = table(output);
    assert_eq!(rows.len(), 40);
    let last = &rows[39];
    assert!(last[1] > 9.4, "{} Mbit/s", last[1]);
    assert!((90.0..110.0).contains(&last[3]), "LEDBAT's target is 100 ms, the queue has {} ms", last[3]);
}

#[test]
fn toy_in_cpp_holds_ledbat_at_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let toy = compile("c++", "-std=c++17", "cpp/toy.cpp", folder.path());
    alone_at_target(&succeed(Command::new(&toy).args(["ledbat", "40"])));
    assert!(refuses(Command::new(&toy).args(["ledbad", "40"])).contains("no law ledbad; there are: newreno"));
    assert!(refuses(Command::new(&toy).args(["ledbat", "x"])).starts_with("usage: toy LAW SECONDS"));
}

#[test]
fn toy_in_rust_holds_ledbat_at_its_target() {
    let toy = |words: [&str; 2]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(["run", "--quiet", "--offline", "--example", "toy", "--"]);
        command.args(words).current_dir(env!("CARGO_MANIFEST_DIR"));
        command
    };
    alone_at_target(&succeed(&mut toy(["ledbat", "40"])));
    assert!(refuses(&mut toy(["ledbat", "x"])).contains("give whole seconds"));
}
