//! Lists the public items of a library crate, one a line: usage `leeway-api target/doc/leeway_units.json`.
//!
//! The file is what rustdoc writes with `--output-format json`; tools/api.sh makes it and compares the list
//! with the crate's api.txt. Impls that follow from a `derive`, from auto traits or from other crates'
//! blanket impls are left out.

use public_api::Builder;
use std::fmt::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("usage: leeway-api FILE.json");
        return ExitCode::from(2);
    };
    let api = Builder::from_rustdoc_json(&file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    match api {
        Ok(api) => {
            let text = api.items().fold(String::new(), |mut text, item| {
                let _ = writeln!(text, "{item}");
                text
            });
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}; it has to be what rustdoc of the pinned Rust writes", file.display());
            ExitCode::FAILURE
        }
    }
}
