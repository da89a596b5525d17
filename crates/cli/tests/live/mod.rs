//! What live tests share. Each of them uses some of it.

#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Whether links can be had here, and these programs too; says why not, and fails where everything has to be tested.
pub fn possible(programs: &[&str]) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    let has = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    };
    let here = [(root, "root"), (Path::new("/dev/net/tun").exists(), "/dev/net/tun"), (has("ip"), "ip")];
    let programs = programs.iter().map(|program| (has(program), *program));
    let missing: Vec<&str> =
        here.into_iter().chain(programs).filter(|(there, _)| !there).map(|(_, what)| what).collect();
    if missing.is_empty() {
        return true;
    }
    let all = std::env::var("LEEWAY_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!all, "LEEWAY_REQUIRE_ALL=1, but a live test lacks {}", missing.join(", "));
    eprintln!("skipped: a live test lacks {}", missing.join(", "));
    false
}

/// The program under test.
pub fn leeway() -> &'static str {
    env!("CARGO_BIN_EXE_leeway")
}

/// As text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Its output, if it succeeds.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
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
