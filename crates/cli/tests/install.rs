//! `make install` and `make uninstall` into a folder of its own.

mod live;

use live::{installable, leeway, succeed, text};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Everything below a folder, with what files contain.
fn tree(folder: &Path) -> BTreeSet<(PathBuf, Option<Vec<u8>>)> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.insert((path.strip_prefix(folder).unwrap().to_owned(), std::fs::read(&path).ok()));
        }
    }
    found
}

fn install(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(Path::new(TOP).join("tools/install.sh"));
    command.args(words).env("DESTDIR", root).env("PREFIX", "/usr").env("LEEWAY_PROGRAM", installable());
    command
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn uninstall_leaves_what_was_there_before_install_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("usr/share/man/man1/other.1"), "another program's");
    write(&root.join("etc/leeway/laws.conf"), "ledbat # somebody wrote this\n");
    let before = tree(root);
    succeed(&mut install(root, &[]));
    for file in [
        "usr/bin/leeway",
        "usr/share/man/man1/leeway.1",
        "usr/share/man/man1/leeway-run.1",
        "usr/share/man/man1/leeway-kernel-load.1",
        "usr/share/bash-completion/completions/leeway",
        "usr/share/zsh/site-functions/_leeway",
        "usr/share/fish/vendor_completions.d/leeway.fish",
        "usr/include/leeway/leeway_laws.h",
        "usr/share/pkgconfig/leeway.pc",
        "usr/lib/libleeway_utp.so.0.1.0",
        "usr/lib/libleeway_utp.so.0",
        "usr/lib/libleeway_utp.so",
        "usr/lib/libleeway_utp.a",
        "usr/lib/pkgconfig/leeway_utp.pc",
        "usr/include/leeway-utp/utp.h",
        "usr/include/leeway-utp/libutp/utp.h",
        "usr/lib/systemd/system/leeway-relay.service",
        "usr/share/leeway/gateway.toml",
        "usr/share/doc/leeway/operator.md",
    ] {
        assert!(root.join(file).is_file(), "{file}");
    }
    assert_eq!(
        std::fs::read(root.join("etc/leeway/laws.conf")).unwrap(),
        b"ledbat # somebody wrote this\n",
        "what somebody wrote stays"
    );
    let [built, installed] = [Path::new(leeway()).to_owned(), root.join("usr/bin/leeway")]
        .map(|path| std::fs::metadata(path).unwrap().len());
    assert!(installed < built, "{installed} bytes are not stripped of {built}");
    // As an upgrade is: again over itself.
    succeed(&mut install(root, &[]));
    succeed(&mut install(root, &["uninstall"]));
    let after = tree(root);
    let differs: Vec<_> = after.symmetric_difference(&before).map(|(path, _)| path).collect();
    assert!(differs.is_empty(), "{differs:?}");
    let again = install(root, &["uninstall"]).output().unwrap();
    assert!(!again.status.success() && text(&again.stderr).contains("nothing to remove"));
}

#[test]
fn a_changed_configuration_stays() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    succeed(&mut install(root, &[]));
    write(&root.join("etc/leeway/laws.conf"), "ledbat\n");
    write(&root.join("etc/leeway/gateway.toml"), "listen = []\n");
    succeed(&mut install(root, &["uninstall"]));
    let left: Vec<_> = tree(root).into_iter().map(|(path, _)| path).collect();
    assert_eq!(
        left,
        ["etc", "etc/leeway", "etc/leeway/gateway.toml", "etc/leeway/laws.conf"].map(PathBuf::from)
    );
}

/// docs/install.md: "With a `PREFIX` in the user's home it installs everything there."
#[test]
fn another_user_than_root_installs_everything_into_a_folder_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    // The program has to be in a place that the other user can read.
    let program = folder.path().join("built");
    std::fs::create_dir(&program).unwrap();
    for file in ["leeway", "libleeway_utp.so", "libleeway_utp.a"] {
        std::fs::copy(Path::new(&installable()).with_file_name(file), program.join(file)).unwrap();
    }
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut user = Command::new(Path::new(TOP).join("tools/install.sh"));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&home, Some(65_534), Some(65_534)).unwrap();
        let as_nobody = || {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
            command
        };
        user = as_nobody();
        user.arg(Path::new(TOP).join("tools/install.sh"));
        if !as_nobody().args(["test", "-r", TOP]).status().unwrap().success() {
            return eprintln!("skipped: the checkout cannot be read by another user");
        }
    }
    user.env_remove("DESTDIR").env("PREFIX", home.join("local")).env("HOME", &home);
    user.env("LEEWAY_PROGRAM", program.join("leeway"));
    succeed(&mut user);
    for file in ["bin/leeway", "share/man/man1/leeway-run.1", "etc/leeway/laws.conf"] {
        assert!(home.join("local").join(file).is_file(), "{file}");
    }
    write(&home.join("local/etc/leeway/laws.conf"), "ledbat\n");
    succeed(user.arg("uninstall"));
    let left: Vec<_> = tree(&home).into_iter().map(|(path, _)| path).collect();
    assert_eq!(
        left,
        ["local", "local/etc", "local/etc/leeway", "local/etc/leeway/laws.conf"].map(PathBuf::from)
    );
}

/// What pkg-config says of a package that is installed below `root`.
fn pkg_config(root: &Path, folder: &str, words: &[&str]) -> String {
    let mut asked = Command::new("pkg-config");
    asked.args(words).env("PKG_CONFIG_SYSROOT_DIR", root);
    text(&succeed(asked.env("PKG_CONFIG_PATH", root.join(folder))).stdout)
}

#[test]
fn a_program_in_c_finds_the_headers_by_pkg_config() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    succeed(&mut install(root, &[]));
    let asked = |what| pkg_config(root, "usr/share/pkgconfig", &[what, "leeway"]);
    let (version, flags) = (asked("--modversion"), asked("--cflags"));
    let version = version.trim();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let source = root.join("program.c");
    let program = "#include <leeway_laws.h>\n#include <stdio.h>\n\
        int main(void) { printf(\"%s %d %s\\n\", LEEWAY_VERSION, LEEWAY_VERSION_NUMBER, leeway_laws[0].name); }\n";
    std::fs::write(&source, program).unwrap();
    let binary = root.join("program");
    succeed(Command::new("cc").args(flags.split_whitespace()).arg(&source).arg("-o").arg(&binary));
    let said = succeed(&mut Command::new(&binary));
    let [major, minor, patch] =
        [0, 1, 2].map(|part| version.split('.').nth(part).unwrap().parse::<u32>().unwrap());
    let number = 10_000 * major + 100 * minor + patch;
    assert_eq!(text(&said.stdout), format!("{version} {number} newreno\n"));
}

#[test]
fn a_program_for_libutp_finds_the_library_by_pkg_config() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    // Below another folder than the headers, as Debian has it.
    let libraries = "usr/lib/some-machine";
    succeed(install(root, &[]).env("LIBDIR", format!("/{libraries}")));
    let asked = |words: &[&str]| {
        pkg_config(root, &format!("{libraries}/pkgconfig"), &[words, &["leeway_utp"]].concat())
    };
    assert_eq!(asked(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    let source = Path::new(TOP).join("crates/utp-c/tests/cat.c");
    let link = |name: &str, flags: &[&str], libs: &str| {
        let program = root.join(name);
        let mut cc = Command::new("cc");
        cc.args(flags).args(["-Wall", "-Werror"]).arg(&source).args(asked(&["--cflags"]).split_whitespace());
        succeed(cc.args(libs.split_whitespace()).arg("-o").arg(&program));
        program
    };
    let shared = link("shared", &[], &asked(&["--libs"]));
    // The other spelling of the header.
    let spelled = std::fs::read_to_string(&source).unwrap().replace("\"utp.h\"", "<libutp/utp.h>");
    std::fs::write(root.join("spelled.c"), spelled).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-fsyntax-only").arg(root.join("spelled.c")).args(asked(&["--cflags"]).split_whitespace());
    succeed(&mut cc);
    let with_all = asked(&["--libs", "--static"]).replace("-lleeway_utp", "-l:libleeway_utp.a");
    let inside = link("static", &[], &with_all);

    let needed = text(&succeed(Command::new("readelf").arg("--dynamic").arg(&shared)).stdout);
    assert!(needed.contains("[libleeway_utp.so.0]"), "{needed}");
    let needed = text(&succeed(Command::new("readelf").arg("--dynamic").arg(&inside)).stdout);
    assert!(!needed.contains("libleeway_utp"), "{needed}");

    // One waits, the other connects, and each has the other's file.
    let port = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let ports = [port(), port()];
    let files = ["from-shared", "from-static"].map(|name| root.join(name));
    std::fs::write(&files[0], vec![7; 100_000]).unwrap();
    std::fs::write(&files[1], vec![9; 50_000]).unwrap();
    let copies = ["at-shared", "at-static"].map(|name| root.join(name));
    let start = |program: &Path, port: &str, peer: &str, which: usize, bytes: &str| {
        let mut command = Command::new(program);
        command.args([port, peer]).arg(&files[which]).arg(&copies[which]).arg(bytes);
        command.env("LD_LIBRARY_PATH", root.join(libraries)).spawn().unwrap()
    };
    let mut waits = start(&inside, &ports[1], "0", 1, "100000");
    let mut connects = start(&shared, &ports[0], &ports[1], 0, "50000");
    assert!(connects.wait().unwrap().success() && waits.wait().unwrap().success());
    assert!(std::fs::read(&copies[0]).unwrap() == vec![9; 50_000]);
    assert!(std::fs::read(&copies[1]).unwrap() == vec![7; 100_000]);
}

/// A `cargo` that only notes what it is asked.
const CARGO: &str = "#!/bin/sh\necho \"$@\" >\"$ASKED\"\nexit 1\n";

#[test]
fn what_is_installed_is_built_as_what_is_packaged() {
    let folder = tempfile::tempdir().unwrap();
    let [cargo, asked] = ["cargo", "asked"].map(|name| folder.path().join(name));
    std::fs::write(&cargo, CARGO).unwrap();
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let [installed, packaged] = ["install.sh", "deb.sh"].map(|script| {
        let mut command = Command::new(Path::new(TOP).join("tools").join(script));
        command.env("PATH", &path).env("ASKED", &asked).env("DESTDIR", folder.path());
        assert!(!command.env_remove("LEEWAY_PROGRAM").output().unwrap().status.success());
        std::fs::read_to_string(&asked).unwrap()
    });
    assert_eq!(installed, packaged);
    assert!(packaged.contains("--profile dist"), "{packaged}");
}
