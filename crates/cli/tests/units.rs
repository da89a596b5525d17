//! The systemd units, as systemd reads them: needs `systemd-analyze`.

mod live;

use live::{has, leeway, text};
use std::process::Command;

#[test]
fn systemd_has_nothing_to_say_of_the_units() {
    if !live::ready([(has("systemd-analyze"), "systemd-analyze (apt-get install systemd)")]) {
        return;
    }
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let folder = tempfile::tempdir().unwrap();
    let mut units = Vec::new();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let unit = std::fs::read_to_string(&path).unwrap();
        // As tools/install.sh puts the program's place; systemd looks whether it can be run.
        let unit = unit.replace("/usr/local/bin/leeway", leeway()).replace("/usr/bin/leeway", leeway());
        let copy = folder.path().join(path.file_name().unwrap());
        std::fs::write(&copy, unit).unwrap();
        units.push(copy);
    }
    assert!(units.len() >= 5, "{units:?}");
    let output = Command::new("systemd-analyze").args(["--man=no", "verify"]).args(&units).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for unit in &units {
        let name = unit.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!said.contains(&name), "{said}");
    }
    // How much a service that strangers talk to could do if it was taken over, from 0 to 10.
    for name in ["leeway-gateway.service", "leeway-relay.service"] {
        let mut judge = Command::new("systemd-analyze");
        judge.args(["--no-pager", "security", "--offline=true", "--threshold=25"]);
        let output = judge.arg(folder.path().join(name)).output().unwrap();
        let said = text(&output.stdout);
        assert!(output.status.success() && said.contains(name), "{said}{}", text(&output.stderr));
        let unit = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(unit.lines().any(|line| line == "DynamicUser=yes"), "{name} runs as root");
    }
}
