//! What ordinary users send to `leeway helper`, which runs as root.

use leeway_kernel::Request;

/// A request: refused in words, or a policy that reads back as it was written.
pub fn helper(bytes: &[u8]) {
    let policy = match Request::parse(bytes).and_then(|request| request.policy()) {
        Ok(policy) => policy,
        Err(why) => return assert!(!why.is_empty()),
    };
    let again = Request::new(&policy, "");
    let line = serde_json::to_vec(&again).expect("a request is JSON");
    let again = Request::parse(&line).and_then(|request| request.policy()).expect("what was written is read");
    assert_eq!(again.law, policy.law);
    assert_eq!(again.dscp.map(|dscp| dscp.codepoint()), policy.dscp.map(|dscp| dscp.codepoint()));
    assert!(policy.dscp.is_none_or(|dscp| dscp.codepoint() < 64));
    let receive =
        |receive: &Option<leeway_kernel::Receive>| receive.as_ref().map(|receive| receive.spec().to_string());
    assert_eq!(receive(&again.receive), receive(&policy.receive));
}
