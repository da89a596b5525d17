//! What somebody sees first: `make run`, the first command of the README and the first notebook show a backup
//! that gives way.

use std::path::Path;
use std::process::Command;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(TOP).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Simulates the first example; the report's data.
fn report(law: Option<&str>) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command
        .args(["sim", "examples/home-backup.toml", "--out"])
        .arg(folder.path().join("out"))
        .current_dir(TOP);
    if let Some(law) = law {
        command.args(["--set", &format!("flow.backup.law={law}")]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = read(folder.path().join("out/report.html"));
    let (_, data) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
}

/// What the report says of the window in which the backup runs.
fn story(report: &serde_json::Value) -> String {
    let window = &report["points"][0]["tables"][1];
    assert_eq!(window["name"], "backup");
    window["story"].as_str().unwrap().to_owned()
}

#[test]
fn the_backup_of_the_first_example_gives_way() {
    let report = report(None);
    let said = story(&report);
    assert!(said.contains("gives way: voice, video and web keep their rates"), "{said}");
    let groups = &report["points"][0]["tables"][1]["groups"];
    let heads: Vec<&str> =
        groups["heads"].as_array().unwrap().iter().map(|head| head.as_str().unwrap()).collect();
    assert!(heads[0].starts_with("harm"), "{heads:?}");
    assert_eq!(groups["abouts"].as_array().unwrap().len(), heads.len());
    assert!(groups["abouts"].as_array().unwrap().iter().all(|about| about.as_str().unwrap().len() > 10));
}

#[test]
fn of_an_ordinary_backup_the_report_says_what_it_takes() {
    let said = story(&report(Some("cubic")));
    assert!(said.contains("does not give way") && said.contains("video loses"), "{said}");
}

#[test]
fn the_first_notebook_has_the_law_of_the_first_example() {
    let example: toml_edit::DocumentMut = read("examples/home-backup.toml").parse().unwrap();
    let flows = example["flow"].as_array_of_tables().unwrap();
    let backup = flows.iter().find(|flow| flow["name"].as_str() == Some("backup")).unwrap();
    let law = backup["law"].as_str().unwrap();
    let notebook = read("examples/notebooks/first-steps.ipynb");
    let flow = format!("name=\\\"backup\\\", law=\\\"{law}\\\"");
    assert!(notebook.contains(&flow), "examples/notebooks/first-steps.ipynb lacks {flow}");
    let first = read("README.md");
    assert!(first.contains("leeway sim examples/home-backup.toml --out report"));
    assert!(read("tools/run.sh").contains("sim examples/home-backup.toml"), "make run begins with it");
}
