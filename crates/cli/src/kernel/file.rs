//! Files of laws for `leeway kernel load --file`, such as `/etc/leeway/laws.conf`, which a systemd
//! unit loads at boot.

use crate::Failure;
use crate::output::stdout;
use leeway_control::LawSpec;
use leeway_kernel::{KernelError, Load, Loaded};
use std::io::Write;
use std::path::Path;

/// Loads the laws of the file. A file with a mistake changes nothing. When the kernel refuses a
/// law, the other laws are loaded all the same.
pub fn load(file: &Path) -> Result<(), Failure> {
    let mut refused = None;
    for load in read(file)? {
        let Load { name, spec, .. } = &load;
        match put(&load) {
            Ok(how) => writeln!(stdout(), "{spec} is loaded as {name}{how}")?,
            Err(error) => {
                eprintln!("error: {name}: {error}");
                refused = Some(name.clone());
            }
        }
    }
    refused.map_or(Ok(()), |name| Err(Failure::Run(format!("{}: {name} is not loaded", file.display()))))
}

fn put(load: &Load) -> Result<&'static str, KernelError> {
    let how = match Loaded::find(&load.name) {
        Ok(there) if there.spec == load.spec && there.timestamps == load.timestamps => return Ok(" already"),
        // Loaded with other parameters, or by another version of leeway.
        Ok(_) | Err(KernelError::Failed { .. }) => {
            leeway_kernel::unload(&load.name)?;
            ", replacing the one before"
        }
        Err(KernelError::Unknown { .. }) => "",
        Err(error) => return Err(error),
    };
    load.pinned()?;
    Ok(how)
}

/// Unloads the laws of the file; those that are not loaded are skipped.
pub fn unload(file: &Path) -> Result<(), Failure> {
    for load in read(file)? {
        match leeway_kernel::unload(&load.name) {
            Ok(()) | Err(KernelError::Unknown { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<Load>, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
    parse(&text).map_err(|(line, message)| Failure::Usage(format!("{}:{line}: {message}", file.display())))
}

/// The laws of the text, or the number of the first bad line and what is wrong with it.
fn parse(text: &str) -> Result<Vec<Load>, (usize, String)> {
    let mut loads: Vec<Load> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(law) = words.next() else { continue };
        let spec: LawSpec = law.parse().map_err(|error| (number, format!("{error}")))?;
        let mut load = Load::new(spec);
        let mut named = false;
        for word in words {
            match word {
                "no-timestamps" => load.timestamps = false,
                name if !named => {
                    name.clone_into(&mut load.name);
                    named = true;
                }
                word => {
                    let expected = "a line has a law, and may have a name and no-timestamps";
                    return Err((number, format!("the word {word:?} is too much: {expected}")));
                }
            }
        }
        load.check().map_err(|error| (number, error.to_string()))?;
        if loads.iter().any(|other| other.name == load.name) {
            return Err((
                number,
                format!("the name {} is used twice; give one of the laws another name", load.name),
            ));
        }
        loads.push(load);
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_law_with_a_name_and_without_timestamps() {
        let text = "# for backups\n\nledbat\nledbat:target=5ms lb5   # near\n\tlp lp_rtt no-timestamps\n";
        let loads = parse(text).unwrap();
        let lines: Vec<_> =
            loads.iter().map(|load| (load.spec.to_string(), load.name.as_str(), load.timestamps)).collect();
        let expected =
            [("ledbat", "leeway_ledbat", true), ("ledbat:target=5ms", "lb5", true), ("lp", "lp_rtt", false)];
        assert_eq!(lines, expected.map(|(law, name, timestamps)| (law.to_owned(), name, timestamps)));
    }

    #[test]
    fn a_mistake_is_found_in_its_line() {
        for (text, line, message) in [
            ("ledbat\nledbad", 2, "ledbad"),
            ("ledbat:target=x", 1, "target"),
            ("ledbat a b", 1, "is too much"),
            ("ledbat a\nlp a", 2, "twice"),
            ("\nledbat a_name_that_is_too_long", 2, "15"),
        ] {
            let (at, said) = parse(text).unwrap_err();
            assert_eq!(at, line, "{text}");
            assert!(said.contains(message), "{said}");
        }
    }
}
