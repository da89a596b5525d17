//! Checks that the table of constants in docs/sharing.md is that of the code.

use leeway_share::Policy;

#[test]
fn every_constant_is_in_the_page_with_its_value_and_reason() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sharing.md")).unwrap();
    for constant in Policy::CONSTANTS {
        let row = format!(
            "| `{}` | {} | {} | {} |",
            constant.name, constant.default, constant.unit, constant.reason
        );
        assert!(page.contains(&row), "docs/sharing.md lacks this row:\n{row}");
    }
}
