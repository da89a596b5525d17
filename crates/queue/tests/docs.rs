//! The pages in docs/queues list the right parameters, and their examples can be read.

use leeway_queue::{QueueInfo, QueueSpec, disciplines};
use std::fmt::Write;
use std::path::Path;

fn table(info: &QueueInfo) -> String {
    let mut text = String::from("| parameter | default | values | what it sets |\n|---|---|---|---|\n");
    for param in &info.params {
        let name = if param.default == "none" { format!("{}N", param.name) } else { param.name.into() };
        writeln!(text, "| `{name}` | {} | {} | {} |", param.default, param.bounds, param.about).unwrap();
    }
    text
}

#[test]
fn pages_agree_with_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/queues");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for info in disciplines() {
        let page = std::fs::read_to_string(folder.join(format!("{}.md", info.name))).unwrap();
        assert!(page.contains(&table(info)), "docs/queues/{}.md should hold\n{}", info.name, table(info));
        assert!(page.contains("## Scope and limitations"), "{}", info.name);
        assert!(index.contains(&format!("[{0}]({0}.md)", info.name)), "{}", info.name);
        let examples: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("    queue = \"")).collect();
        assert!(!examples.is_empty(), "{} has no example", info.name);
        for example in examples {
            let text = example.trim_end_matches('"');
            let spec: QueueSpec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(spec.name(), info.name);
        }
    }
}
