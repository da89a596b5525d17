//! What live tests share. Each of them uses some of it.

#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Whether links can be had here, and these programs too; says why not, and fails where everything has to be
/// tested.
pub fn possible(programs: &[&str]) -> bool {
    let tun = (Path::new("/dev/net/tun").exists(), "/dev/net/tun");
    let programs = programs.iter().chain(&["ip"]).map(|program| (has(program), *program));
    ready(programs.chain([tun]))
}

/// Whether root has all of this here; says why not, and fails where everything has to be tested.
pub fn ready<'a>(needed: impl IntoIterator<Item = (bool, &'a str)>) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = (status.lines().any(|line| line.starts_with("Uid:\t0\t")), "root");
    let all = [root].into_iter().chain(needed);
    let missing: Vec<&str> = all.filter(|(there, _)| !there).map(|(_, what)| what).collect();
    if missing.is_empty() {
        return true;
    }
    let all = std::env::var("LEEWAY_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!all, "LEEWAY_REQUIRE_ALL=1, but a live test lacks {}", missing.join(", "));
    eprintln!("skipped: a live test lacks {}", missing.join(", "));
    false
}

/// Whether a program is installed.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// The program under test.
pub fn leeway() -> &'static str {
    env!("CARGO_BIN_EXE_leeway")
}

/// The program under test, with libleeway_utp beside it, as tools/install.sh wants it. Cargo builds the library of
/// another package for no test.
pub fn installable() -> &'static str {
    let folder = Path::new(leeway()).parent().unwrap();
    let profile = match folder.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--package", "leeway-utp-c", "--offline", "--locked", "--profile", profile]);
    succeed(cargo.arg("--target-dir").arg(folder.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR")));
    leeway()
}

/// A Debian package of the program under test. Compressing that program, which carries the names of its lines,
/// as hard as for a release takes a processor 40 s.
pub fn package(folder: &Path, version: &str) -> PathBuf {
    let mut make = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/deb.sh"));
    make.arg(folder).env("LEEWAY_PROGRAM", installable());
    make.env("LEEWAY_DEB_VERSION", version).env("LEEWAY_DEB_LEVEL", "1");
    PathBuf::from(text(&succeed(&mut make).stdout).trim())
}

/// As text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Its output, if it succeeds.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output.stderr));
    output
}

/// A program whose command has said `line` on its standard output.
pub struct Running {
    pub child: Child,
    pub line: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Running { child, line }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal, such as `-TERM`.
pub fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// A name for the kernel that no other process uses.
pub fn unique(what: &str) -> String {
    format!("{what}{:x}", std::process::id() & 0xff_ffff)
}

/// A law that is loaded until the end of the test.
pub struct Law(pub String);

impl Law {
    /// Under a name that begins with `what`.
    pub fn load(law: &str, what: &str) -> Law {
        let name = unique(what);
        succeed(Command::new(leeway()).args(["kernel", "load", law, "--name", &name]));
        Law(name)
    }
}

impl Drop for Law {
    fn drop(&mut self) {
        let _ = Command::new(leeway()).args(["kernel", "unload", &self.0]).output();
    }
}
