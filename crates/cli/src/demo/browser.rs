//! Opens a page in the browser of the user at this machine.

use nix::unistd::{Uid, User};
use std::env::{split_paths, var, var_os};
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Opens the page if the program runs in a terminal of a desktop. Errors are ignored, because the
/// address is printed in any case.
pub fn open(page: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| var_os(name).is_some());
    let opener = var_os("PATH")
        .and_then(|path| split_paths(&path).map(|folder| folder.join("xdg-open")).find(|file| file.exists()));
    let Some(opener) = opener.filter(|_| desktop && io::stdout().is_terminal()) else { return };
    let mut command = Command::new(opener);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    // Browsers do not run as root: the user who called sudo opens the page.
    let caller = var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let caller = caller.and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
    if let Some(user) = caller {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw()).env("HOME", user.dir);
    }
    if let Ok(mut child) = command.spawn() {
        std::thread::spawn(move || child.wait());
    }
}
