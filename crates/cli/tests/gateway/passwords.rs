//! `leeway gateway passwd`, and what a gateway says of files with secrets.

use crate::bed::{Gateway, PATIENCE, leeway};
use crate::live::{self, has};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs it with this on its standard input.
fn passwd(arguments: &[&str], input: &str) -> Output {
    let mut command = leeway();
    command.args(["gateway", "passwd"]).args(arguments);
    feed(command, input)
}

fn feed(mut command: Command, input: &str) -> Output {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    // A command that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The status that a gateway with this file of users answers to these.
fn asked(users: &Path, basic: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gateway.toml");
    let text = format!("listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\nusers_file = {users:?}\n");
    std::fs::write(&config, text).unwrap();
    let mut command = leeway();
    command.args(["gateway", "--config"]).arg(&config);
    let (_gateway, addresses) = Gateway::start(&mut command, 1);
    let mut client = TcpStream::connect(addresses[0]).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic {basic}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_user_that_was_made_is_let_in() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let file = users.to_str().unwrap();
    let output = passwd(&["ann", "--file", file], "a long phrase\n");
    assert!(output.status.success(), "{}", said(&output));
    let mode = users.metadata().unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o600, "{mode:o}");
    let text = std::fs::read_to_string(&users).unwrap();
    assert!(text.starts_with("ann:$argon2id$") && !text.contains("phrase"), "{text}");
    // "ann:a long phrase", and "ann:another phrase".
    assert_eq!(asked(&users, "YW5uOmEgbG9uZyBwaHJhc2U="), "403", "let in, but not to there");
    assert_eq!(asked(&users, "YW5uOmFub3RoZXIgcGhyYXNl"), "407");
    // Another password, and another user; then the first one goes.
    for name in ["ann", "bob"] {
        let output = passwd(&[name, "--file", file], "another phrase");
        assert!(output.status.success(), "{}", said(&output));
    }
    assert_eq!(asked(&users, "YW5uOmFub3RoZXIgcGhyYXNl"), "403");
    assert!(passwd(&["ann", "--file", file, "--remove"], "").status.success());
    assert_eq!(asked(&users, "YW5uOmFub3RoZXIgcGhyYXNl"), "407");
    let text = std::fs::read_to_string(&users).unwrap();
    assert!(text.starts_with("bob:") && text.lines().count() == 1, "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    // Without a file the line is printed.
    let output = passwd(&["eve"], "a long phrase");
    assert!(said(&output).starts_with("eve:$argon2id$v=19$m=19456,t=2,p=1$"), "{}", said(&output));
}

#[test]
fn what_cannot_be_a_user_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let file = users.to_str().unwrap();
    for (arguments, input, why) in [
        (&["ann", "--file", file][..], "short\n", "at least 8 characters"),
        (&["a:b", "--file", file], "a long phrase\n", "no colon"),
        (&["ann", "--remove"], "", "--file"),
        (&["ann", "--file", file, "--remove"], "", "there is no user \"ann\""),
    ] {
        let output = passwd(arguments, input);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
    }
    std::fs::write(&users, "ann:secret7\n").unwrap();
    let output = passwd(&["bob", "--file", file], "a long phrase\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("line 1") && !said(&output).contains("secret7"), "{}", said(&output));
}

#[test]
fn a_gateway_whose_secrets_everybody_can_read_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let [users, token, config] =
        ["users", "relay.token", "gateway.toml"].map(|name| folder.path().join(name));
    let file = users.to_str().unwrap();
    assert!(passwd(&["ann", "--file", file], "a long phrase\n").status.success());
    std::fs::write(&token, "leeway1_x\n").unwrap();
    let check = |more: &str| {
        let text = format!("listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\n{more}\n");
        std::fs::write(&config, text).unwrap();
        let mut command = leeway();
        command.args(["gateway", "check", "--config"]).arg(&config);
        let output = feed(command, "");
        (output.status.code(), said(&output))
    };
    let named = format!("users_file = {users:?}");
    assert_eq!(check(&named).0, Some(0));
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (more, path) in [(named, &users), (format!("[relay]\ntoken_file = {token:?}"), &token)] {
        let (code, said) = check(&more);
        assert_eq!(code, Some(2), "{said}");
        let mend = said.lines().find_map(|line| line.trim().strip_prefix("right: chmod ")).expect(&said);
        let mend = format!("chmod {mend}");
        assert!(mend.starts_with("chmod 06") && mend.ends_with(path.to_str().unwrap()), "{said}");
        // What the message says helps.
        assert!(Command::new("sh").args(["-c", &mend]).status().unwrap().success());
        let (code, said) = check(&more);
        assert!(
            !said.contains("chmod") && (code == Some(0) || said.contains("the token is incomplete")),
            "{said}"
        );
    }
}

/// On a terminal, which `script` (util-linux) makes: nothing of what is typed is shown, and it is asked twice.
#[test]
fn a_terminal_does_not_show_the_password() {
    if !live::ready([(has("script"), "script (apt-get install bsdutils)")]) {
        return;
    }
    let on_terminal = |typed: [&str; 2]| {
        let mut command = Command::new("script");
        let program = format!("{} gateway passwd ann", live::leeway());
        command.args(["--quiet", "--return", "--command", &program, "/dev/null"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut said = Vec::new();
        // What is typed before the question is thrown away.
        for (question, typed) in ["Password of ann: ", "Again, the password of ann: "].iter().zip(typed) {
            let mut byte = [0];
            while !said.ends_with(question.as_bytes()) && output.read(&mut byte).unwrap() > 0 {
                said.push(byte[0]);
            }
            input.write_all(typed.as_bytes()).unwrap();
        }
        output.read_to_end(&mut said).unwrap();
        (child.wait().unwrap().code(), String::from_utf8_lossy(&said).into_owned())
    };
    let (code, said) = on_terminal(["a long phrase\n", "a long phrase\n"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Password of ann: ") && said.contains("Again, the password of ann: "), "{said}");
    assert!(said.contains("ann:$argon2id$") && !said.contains("phrase"), "{said}");
    let (code, said) = on_terminal(["a long phrase\n", "another phrase\n"]);
    assert!(code == Some(2) && said.contains("the two passwords differ"), "{code:?} {said}");
}
