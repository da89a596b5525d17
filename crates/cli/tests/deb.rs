//! The Debian package in fresh Debian 12 and 13: installed, used, upgraded, removed, purged.

mod live;

use live::{has, package, ready, succeed, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A fresh Debian in a folder.
struct Debian(PathBuf);

impl Debian {
    /// With what the package depends on, and nothing that is not essential besides.
    fn new(folder: &Path, suite: &str, package: &Path) -> Self {
        let depends = succeed(Command::new("dpkg-deb").arg("--field").arg(package).arg("Depends"));
        let depends = text(&depends.stdout);
        // `a (>= 1), b | c`: the last of each choice, which is the small one.
        let names: Vec<&str> = depends
            .split(',')
            .filter_map(|choice| choice.split('|').next_back()?.split_whitespace().next())
            .collect();
        let root = folder.join(suite);
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase"]).arg(format!("--include={}", names.join(",")));
        succeed(make.arg(suite).arg(&root));
        Debian(root)
    }

    fn run(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new("chroot");
        command.arg(&self.0).args(words).env("DEBIAN_FRONTEND", "noninteractive");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/").output().unwrap()
    }

    fn succeed(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}\n{}", output.status, text(&output.stderr));
        text(&output.stdout)
    }

    fn install(&self, package: &Path) {
        std::fs::copy(package, self.0.join("leeway.deb")).unwrap();
        self.succeed(&["dpkg", "--force-confdef", "--install", "/leeway.deb"]);
    }

    fn read(&self, file: &str) -> std::io::Result<String> {
        std::fs::read_to_string(self.0.join(file))
    }

    /// Names of everything below the folders where the package puts something, but for dpkg's own records.
    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut folders: Vec<PathBuf> = ["etc", "usr", "var/lib/leeway"].map(|name| self.0.join(name)).into();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                found.insert(entry.path().strip_prefix(&self.0).unwrap().to_owned());
            }
        }
        found
    }
}

fn lives_and_dies_in(suite: &str, folder: &Path, first: &Path, second: &Path) {
    let debian = Debian::new(folder, suite, first);
    let before = debian.files();

    debian.install(first);
    assert!(debian.succeed(&["leeway", "--version"]).starts_with("leeway "));
    assert!(debian.succeed(&["leeway", "laws"]).contains("ledbat"));
    std::fs::copy(Path::new(TOP).join("examples/home-backup.toml"), debian.0.join("home.toml")).unwrap();
    assert!(debian.succeed(&["leeway", "sim", "/home.toml"]).contains("backup"));
    assert!(debian.read("etc/group").unwrap().contains("\nleeway:"), "the helper's group");
    assert!(debian.read("usr/share/leeway/gateway.toml").is_ok());
    assert!(debian.read("etc/leeway/gateway.toml").is_err(), "`leeway gateway init` writes it");

    pages_of_the_operator(&debian);
    library_in_c(&debian);

    // What somebody has written survives an upgrade and a removal.
    std::fs::write(debian.0.join("etc/leeway/laws.conf"), "ledbat # mine\n").unwrap();
    std::fs::create_dir_all(debian.0.join("var/lib/leeway/relay")).unwrap();
    std::fs::write(debian.0.join("var/lib/leeway/relay/key"), "secret").unwrap();
    debian.install(second);
    let version = debian.succeed(&["dpkg-query", "--show", "--showformat=${Version}", "leeway"]);
    assert_eq!(version, "0.0.2");
    assert_eq!(debian.read("etc/leeway/laws.conf").unwrap(), "ledbat # mine\n");
    debian.succeed(&["dpkg", "--remove", "leeway"]);
    assert!(!debian.run(&["leeway", "--version"]).status.success());
    assert_eq!(debian.read("etc/leeway/laws.conf").unwrap(), "ledbat # mine\n");
    assert_eq!(debian.read("var/lib/leeway/relay/key").unwrap(), "secret");

    debian.succeed(&["dpkg", "--purge", "leeway"]);
    assert!(!debian.succeed(&["ldconfig", "--print-cache"]).contains("leeway"), "the linker's cache");
    let after = debian.files();
    // The group stays, as Debian has it, and so do backups of the files that it is in.
    let left: Vec<_> = after.difference(&before).filter(|name| !name.ends_with("group-")).collect();
    assert!(
        left.iter().all(|name| name.starts_with("etc") && name.to_string_lossy().ends_with('-')),
        "{left:?}"
    );
}

/// The pages for who shares a line are there, the manual names the first, and their links lead to something.
fn pages_of_the_operator(debian: &Debian) {
    let folder = "usr/share/doc/leeway";
    let manual = debian.succeed(&["zcat", "/usr/share/man/man1/leeway-gateway.1.gz"]).replace('\\', "");
    assert!(manual.contains("share/doc/leeway/operator.md"), "{manual}");
    let page = debian.read(&format!("{folder}/operator.md")).unwrap();
    assert!(page.contains("sudo leeway gateway init"), "{page}");
    for page in ["operator.md", "gateway.md", "accounts.md", "README.md", "NEWS.md.gz"] {
        let text = debian.succeed(&["zcat", "--force", &format!("/{folder}/{page}")]);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            let there = file.is_empty() || debian.0.join(folder).join(file).is_file();
            // What is not in the package is in the repository, and tools/check_links.py knows whether it is there.
            let far = file.starts_with("https://");
            assert!(there || far, "{page}: {link}");
        }
    }
}

/// The dynamic linker has the library in its cache, and a program that pkg-config's flags link starts.
fn library_in_c(debian: &Debian) {
    let cached = debian.succeed(&["ldconfig", "--print-cache"]);
    assert!(cached.contains("libleeway_utp.so.0 "), "{cached}");
    let library = cached.lines().find(|line| line.contains("libleeway_utp.so.0 ")).unwrap();
    let library = Path::new(library.split("=> /").nth(1).unwrap()).parent().unwrap();
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "leeway_utp"]).env("PKG_CONFIG_SYSROOT_DIR", &debian.0);
    let flags = succeed(asked.env("PKG_CONFIG_PATH", debian.0.join(library).join("pkgconfig")));
    let source = debian.0.join("program.c");
    let program = "#include <utp.h>\n#include <stdio.h>\nint main(void) { utp_context *context = utp_init(2); \
        printf(\"%d %d\\n\", leeway_utp_set_law(context, \"ebb\"), leeway_utp_set_law(context, \"none\")); }\n";
    std::fs::write(&source, program).unwrap();
    let mut cc = Command::new("cc");
    cc.arg(&source).args(text(&flags.stdout).split_whitespace()).arg("-o").arg(debian.0.join("program"));
    succeed(&mut cc);
    assert_eq!(debian.succeed(&["/program"]), "0 -1\n");
}

#[test]
fn the_package_lives_and_dies_in_debian_12_and_13() {
    if !ready([(has("mmdebstrap"), "mmdebstrap"), (has("dpkg-deb"), "dpkg-deb")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (first, second) = (package(folder, "0.0.1"), package(folder, "0.0.2"));
    std::thread::scope(|scope| {
        for suite in ["bookworm", "trixie"] {
            let lives = || lives_and_dies_in(suite, folder, &first, &second);
            std::thread::Builder::new().name(suite.to_owned()).spawn_scoped(scope, lives).unwrap();
        }
    });
}
