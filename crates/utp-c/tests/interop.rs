//! A program for libutp, linked with libutp and with this library, against each other. It is built
//! with libutp's own header, so that the interface is the same, and with ours.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIBUTP: &str = "libutp-rs2-sys";
const SOURCES: [&str; 6] = ["internal", "utils", "hash", "callbacks", "api", "packedsockaddr"];
/// What a static library of Rust needs of the system.
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The folder of libutp's sources in the package of the crate around it.
fn libutp() -> PathBuf {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cargo = ["metadata", "--format-version=1", "--offline", "--manifest-path", manifest];
    let metadata: serde_json::Value =
        serde_json::from_str(&run(Command::new(env!("CARGO")).args(cargo))).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == LIBUTP).unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).with_file_name("libutp")
}

/// `ucat.c` of libutp: that of `LEEWAY_UCAT`, otherwise out of the npm package `utp-native`, where the registry
/// can be reached.
fn ucat(folder: &Path) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("LEEWAY_UCAT") {
        return Some(path.into());
    }
    let pack =
        Command::new("npm").args(["pack", "--silent", "utp-native@2.5.3"]).current_dir(folder).output();
    if !pack.is_ok_and(|output| output.status.success()) {
        return None;
    }
    run(Command::new("tar").args(["xf", "utp-native-2.5.3.tgz"]).current_dir(folder));
    Some(folder.join("package/deps/libutp/ucat.c"))
}

/// The folder with `libleeway_utp.a` and `libleeway_utp.so`: a test does not build them.
fn ours() -> PathBuf {
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let cargo = ["build", "--package", "leeway-utp-c", "--offline", "--target-dir"];
    run(Command::new(env!("CARGO")).args(cargo).arg(&target).current_dir(env!("CARGO_MANIFEST_DIR")));
    target.join("debug")
}

struct Programs {
    /// libutp's header and library.
    theirs: PathBuf,
    /// libutp's header, our library.
    unchanged: PathBuf,
    /// Our header and library.
    ours: PathBuf,
}

fn build(folder: &Path) -> Programs {
    let (libutp, ours) = (libutp(), ours());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cat = here.join("tests/cat.c");
    let object = |name: &str, include: &Path| {
        let object = folder.join(name);
        let flags = ["-DPOSIX", "-O1", "-Wall", "-Werror", "-c"];
        run(Command::new("cc").args(flags).arg("-I").arg(include).arg(&cat).arg("-o").arg(&object));
        object
    };
    let unchanged = object("unchanged.o", &libutp);
    let own = object("own.o", &here.join("include"));
    let link = |name: &str, command: &mut Command| {
        let program = folder.join(name);
        run(command.arg("-o").arg(&program));
        program
    };
    let sources = SOURCES.map(|name| libutp.join(format!("utp_{name}.cpp")));
    let archive = ours.join("libleeway_utp.a");
    // The name by which a linked program asks for the library; tools/install.sh makes this link.
    std::os::unix::fs::symlink(ours.join("libleeway_utp.so"), folder.join("libleeway_utp.so.0")).unwrap();
    Programs {
        theirs: link(
            "cat-theirs",
            Command::new("c++").args(["-DPOSIX", "-O1", "-w"]).arg(&unchanged).args(sources),
        ),
        unchanged: link("cat-unchanged", Command::new("cc").arg(&unchanged).arg(archive).args(SYSTEM)),
        ours: link(
            "cat-ours",
            Command::new("cc").arg(&own).arg("-L").arg(&ours).arg(rpath(folder)).arg("-lleeway_utp"),
        ),
    }
}

fn rpath(folder: &Path) -> String {
    format!("-Wl,-rpath,{}", folder.display())
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

/// Both send a file and receive one, over one connection that `connects` asks for. `half`: each ends its direction
/// when its file is written, the one with the shorter file in the middle of the other's.
fn exchange(folder: &Path, connects: &Path, accepts: &Path, sizes: [usize; 2], half: bool) {
    let files = ["there", "back"].map(|name| folder.join(name));
    let copies = ["there.copy", "back.copy"].map(|name| folder.join(name));
    for which in 0..2 {
        std::fs::write(&files[which], pattern(sizes[which], which)).unwrap();
    }
    let ports = [free_port(), free_port()];
    let start = |program: &Path, port: u16, peer: u16, which: usize| -> Child {
        let words = [port, peer].map(|port| port.to_string());
        let mut command = Command::new(program);
        command.args(words).arg(&files[which]).arg(&copies[1 - which]).arg(sizes[1 - which].to_string());
        command.args(half.then_some("half")).spawn().unwrap()
    };
    let mut accepting = start(accepts, ports[1], 0, 1);
    // A SYN that comes too early is sent again.
    let mut connecting = start(connects, ports[0], ports[1], 0);
    let names = format!("{} to {}", connects.display(), accepts.display());
    assert!(connecting.wait().unwrap().success(), "{names}: the connecting side");
    assert!(accepting.wait().unwrap().success(), "{names}: the accepting side");
    for which in 0..2 {
        assert!(
            std::fs::read(&copies[which]).unwrap() == pattern(sizes[which], which),
            "{names}: file {which}"
        );
    }
}

#[test]
fn a_program_for_libutp_links_with_it_and_both_understand_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let programs = build(folder.path());
    for half in [false, true] {
        for sizes in [[2_000_001, 700_000], [100_000, 2_000_001]] {
            exchange(folder.path(), &programs.unchanged, &programs.theirs, sizes, half);
            exchange(folder.path(), &programs.theirs, &programs.unchanged, sizes, half);
            exchange(folder.path(), &programs.ours, &programs.unchanged, sizes, half);
        }
    }
    let said = |law| {
        // Without arguments it ends after it has made a context.
        let output = Command::new(&programs.ours).env("LEEWAY_UTP_LAW", law).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said("ledbat:target=lots").contains("LEEWAY_UTP_LAW"), "a law that does not exist is said");
    assert!(!said("ledbat:target=25ms").contains("LEEWAY_UTP_LAW"));
}

#[test]
fn what_it_counts_measures_and_logs_is_what_libutp_does() {
    let folder = tempfile::tempdir().unwrap();
    let (libutp, ours) = (libutp(), ours());
    let object = folder.path().join("counted.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counted.c");
    let flags = ["-DPOSIX", "-O1", "-Wall", "-Werror", "-c", "-I"];
    run(Command::new("cc").args(flags).arg(&libutp).arg(&source).arg("-o").arg(&object));
    let [theirs, own] = ["counted-theirs", "counted-ours"].map(|name| folder.path().join(name));
    let sources = SOURCES.map(|name| libutp.join(format!("utp_{name}.cpp")));
    // libutp counts in debug builds only.
    let flags = ["-DPOSIX", "-D_DEBUG", "-O1", "-w"];
    run(Command::new("c++").args(flags).arg(&object).args(sources).arg("-o").arg(&theirs));
    let archive = ours.join("libleeway_utp.a");
    run(Command::new("cc").arg(&object).arg(archive).args(SYSTEM).arg("-o").arg(&own));
    for program in [&theirs, &own] {
        run(&mut Command::new(program));
    }
    run(Command::new(&own).arg("ms"));
}

/// Functions and variables that a header declares. Types, constants and what is inside braces are none.
fn declared(header: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(header).unwrap();
    let mut lines = String::new();
    for (at, part) in text.split("/*").enumerate() {
        lines += if at == 0 { part } else { part.split_once("*/").unwrap().1 };
    }
    let code: Vec<&str> = lines
        .lines()
        .filter(|line| !line.starts_with('#') && !line.contains("extern \"C\""))
        .map(|line| line.split("//").next().unwrap())
        .collect();
    let (mut outside, mut depth) = (String::new(), 0);
    for character in code.join(" ").chars() {
        match character {
            '{' => depth += 1,
            // The last one may end `extern "C"`.
            '}' => depth = (depth - 1).max(0),
            other if depth == 0 => outside.push(other),
            _ => {}
        }
    }
    let name = |statement: &str| {
        let before = statement.split(['(', '[']).next().filter(|before| before.len() < statement.len())?;
        Some(before.trim().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_owned())
    };
    outside.split(';').map(str::trim).filter(|text| !text.starts_with("typedef")).filter_map(name).collect()
}

#[test]
fn the_library_exports_what_its_header_declares_which_is_libutp_and_what_begins_with_leeway() {
    let library = ours().join("libleeway_utp.so");
    let dynamic = run(Command::new("readelf").arg("--dynamic").arg(&library));
    assert!(dynamic.contains("soname: [libleeway_utp.so.0]"), "{dynamic}");
    let symbols = run(Command::new("nm").args(["--dynamic", "--defined-only"]).arg(&library));
    let exported: BTreeSet<String> =
        symbols.lines().map(|line| line.split_whitespace().next_back().unwrap().to_owned()).collect();
    let header = declared(&Path::new(env!("CARGO_MANIFEST_DIR")).join("include/utp.h"));
    assert!(header.contains("utp_writev") && header.contains("utp_state_names"), "{header:?}");
    let differ: Vec<_> = exported.symmetric_difference(&header).collect();
    assert!(differ.is_empty(), "exported or declared, not both: {differ:?}");
    let theirs = declared(&libutp().join("utp.h"));
    let own: Vec<_> = header.difference(&theirs).collect();
    assert_eq!(own, ["leeway_utp_next_timeout_us", "leeway_utp_set_law"]);
    let missing: Vec<_> = theirs.difference(&header).collect();
    assert!(missing.is_empty(), "in libutp alone: {missing:?}");
}

/// What a `ucat` did that `connects` to another one, which `answers` once it has all, or before.
fn ucats(folder: &Path, connects: &Path, accepts: &Path, early: bool) {
    let names = format!("{} to {}, early: {early}", connects.display(), accepts.display());
    let (sent, got, answer) = (folder.join("sent"), folder.join("got"), folder.join("answer"));
    let bytes = pattern(1_000_000, 7);
    std::fs::write(&sent, &bytes).unwrap();
    let port = free_port().to_string();
    // A socket, because ucat does not see the end of a pipe: it polls for POLLIN alone.
    let (mut says, hears) = UnixStream::pair().unwrap();
    let file = |path: &Path| std::fs::File::create(path).unwrap();
    let mut accepting = Command::new(accepts)
        .args(["-l", "-p", &port])
        .stdin(Stdio::from(OwnedFd::from(hears)))
        .stdout(file(&got))
        .spawn()
        .unwrap();
    // A SYN before the other is there would end this one: the system refuses it.
    std::thread::sleep(Duration::from_millis(500));
    let mut connecting = Command::new(connects)
        .args(["127.0.0.1", &port])
        .stdin(std::fs::File::open(&sent).unwrap())
        .stdout(file(&answer))
        .spawn()
        .unwrap();
    let began = Instant::now();
    let waits = |what: &str, done: &mut dyn FnMut() -> bool| {
        while !done() {
            assert!(began.elapsed() < Duration::from_secs(100), "{names}: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // It has accepted then; before, the end of its input would end it.
    let enough = if early { 1 } else { bytes.len() as u64 };
    waits("nothing arrives", &mut || std::fs::metadata(&got).unwrap().len() >= enough);
    says.write_all(b"answer").unwrap();
    drop(says);
    for (who, program) in [("connecting", &mut connecting), ("accepting", &mut accepting)] {
        let mut status = None;
        waits("it does not end", &mut || {
            status = program.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{names}: the {who} side");
    }
    assert!(std::fs::read(&got).unwrap() == bytes, "{names}: the file");
    assert_eq!(std::fs::read(&answer).unwrap(), b"answer", "{names}");
}

#[test]
fn ucat_of_libutp_ends_with_this_library_as_with_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let Some(source) = ucat(folder.path()) else {
        eprintln!("skipped: no ucat.c in LEEWAY_UCAT, and npm has not fetched utp-native");
        return;
    };
    let (libutp, ours) = (libutp(), ours());
    let object = folder.path().join("ucat.o");
    run(Command::new("cc")
        .args(["-DPOSIX", "-O1", "-w", "-c"])
        .arg("-I")
        .arg(&libutp)
        .arg(&source)
        .arg("-o")
        .arg(&object));
    let [theirs, unchanged] = ["ucat-theirs", "ucat-unchanged"].map(|name| folder.path().join(name));
    let sources = SOURCES.map(|name| libutp.join(format!("utp_{name}.cpp")));
    run(Command::new("c++").args(["-DPOSIX", "-O1", "-w"]).arg(&object).args(sources).arg("-o").arg(&theirs));
    let archive = ours.join("libleeway_utp.a");
    run(Command::new("cc").arg(&object).arg(archive).args(SYSTEM).arg("-o").arg(&unchanged));
    for early in [false, true] {
        ucats(folder.path(), &theirs, &theirs, early);
        ucats(folder.path(), &theirs, &unchanged, early);
        ucats(folder.path(), &unchanged, &theirs, early);
        ucats(folder.path(), &unchanged, &unchanged, early);
    }
}
