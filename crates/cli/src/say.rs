//! `eprint!` and `eprintln!` for this program. Those of the standard library panic where the
//! standard error cannot be written: on a full disk, or when its reader has ended, as a pipe's. A
//! service has to go on without its log then, and a command has to end with its own exit code.

/// Prints to the standard error, if that is possible.
macro_rules! eprint {
    ($($words:tt)*) => {{
        // There is no other place to report it.
        let _ = ::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!($($words)*));
    }};
}

/// Prints a line to the standard error, if that is possible.
macro_rules! eprintln {
    () => { eprint!("\n") };
    ($($words:tt)*) => { eprint!("{}\n", format_args!($($words)*)) };
}
