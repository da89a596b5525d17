//! The judgement of a cgroup's account: whether the uploads get a steady share of the line, or
//! yield, or come back. Tests `bpf/account.h`, compiled for this machine.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// One second: share of the line, retransmissions, share of the time in which the uploads were
/// busy, queuing delay in ms.
type Second = (f64, u64, f64, f64);

/// Rate of the line in all cases. Unit: bytes/s.
const LINE: f64 = 1.25e6;

fn driver() -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = env!("CARGO_MANIFEST_DIR");
    let names = ["clang-16", "clang-17", "clang-18", "clang-19", "clang-20", "clang"];
    let chosen = std::env::var("CLANG").ok();
    let built =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("account-{}-{number}", std::process::id()));
    for clang in chosen.as_deref().into_iter().chain(names) {
        let mut compile = Command::new(clang);
        compile.args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=undefined",
            "-fno-sanitize-recover",
        ]);
        compile.args(["-I", &format!("{folder}/include"), "-I", &format!("{folder}/src/bpf"), "-o"]);
        match compile.arg(&built).arg(format!("{folder}/tests/account/driver.c")).status() {
            Ok(status) => {
                assert!(status.success(), "{clang} refused the driver");
                return built;
            }
            Err(_) => continue,
        }
    }
    panic!("no clang, which building needs as well (tools/setup.sh build)");
}

#[test]
fn a_share_is_told_from_giving_way_and_from_coming_back() {
    let alone = vec![(1.0, 0, 1.0, 24.0); 8];
    let then = |more: Vec<Second>| alone.iter().copied().chain(more).collect::<Vec<Second>>();
    let each = |count: u32, second: &dyn Fn(u32) -> Second| (0..count).map(second).collect::<Vec<Second>>();
    let cases: [(&str, Vec<Second>, bool); 10] = [
        ("alone", then(each(30, &|_| (0.98, 0, 1.0, 24.0))), false),
        ("a queue of its own, half of the line", then(each(20, &|_| (0.5, 0, 1.0, 24.0))), true),
        (
            "CoDel in a queue of its own",
            then(each(20, &|n| (0.4 + 0.1 * f64::from(n % 3), 1, 1.0, 1.5))),
            true,
        ),
        ("a rival that fills a shared queue", then(each(30, &|_| (0.02, 0, 1.0, 80.0))), false),
        ("on its way out", then(each(30, &|_| (0.3, 0, 1.0, 60.0))), false),
        (
            "coming back, by a tenth a second",
            then(each(12, &|n| (0.2 * 1.1f64.powi(n as i32), 0, 1.0, 0.0))),
            false,
        ),
        ("growing under losses", then(each(14, &|n| (0.15 + 0.04 * f64::from(n), 1, 1.0, 1.0))), false),
        ("losses without any queue", then(each(30, &|_| (0.5, 3, 1.0, 0.1))), false),
        ("a program that has little to send", then(each(30, &|_| (0.5, 0, 0.3, 24.0))), false),
        ("for a moment only", then(each(9, &|_| (0.5, 0, 1.0, 24.0))), false),
    ];
    told(25_000, &cases);
}

#[test]
fn a_share_of_a_law_without_target_is_any_steady_part_beside_a_queue() {
    let part = |queue_ms: f64, part: f64| {
        let alone = [(1.0, 0, 1.0, 2.0); 8];
        alone.into_iter().chain([(part, 0, 1.0, queue_ms); 20]).collect::<Vec<Second>>()
    };
    told(
        u32::MAX,
        &[
            ("a queue of its own, half of the line", part(5.3, 0.5), true),
            ("a long one", part(200.0, 0.5), true),
            ("a rival that fills a shared queue", part(80.0, 0.01), false),
            ("no queue", part(0.1, 0.5), false),
            ("alone", part(2.0, 0.97), false),
        ],
    );
    told(0, &[("a law that knows nothing of queues", part(5.3, 0.5), false)]);
}

#[test]
fn giving_way_is_less_than_half_of_the_best_rate() {
    let driver = driver();
    let cases: [(&str, Vec<Second>, u64); 5] = [
        ("alone on the line", vec![(1.0, 0, 1.0, 24.0); 20], 0),
        ("growing towards the line", vec![(0.5, 0, 1.0, 0.0), (0.7, 0, 1.0, 0.0), (1.0, 0, 1.0, 24.0)], 0),
        ("four seconds of a rival", [vec![(1.0, 0, 1.0, 2.0); 5], vec![(0.01, 0, 1.0, 80.0); 4]].concat(), 4),
        (
            "little to send, at the line's rate",
            [vec![(1.0, 0, 1.0, 2.0); 5], vec![(0.2, 0, 0.2, 2.0)]].concat(),
            0,
        ),
        ("nothing to send", [vec![(1.0, 0, 1.0, 2.0); 5], vec![(0.0, 0, 0.0, 0.0); 9]].concat(), 0),
    ];
    for (what, seconds, expected) in cases {
        assert_eq!(account(&driver, 25_000, &seconds)[2], expected * 1_000_000, "{what}");
    }
    let _ = std::fs::remove_file(driver);
}

/// The same judgement for senders in user space.
#[test]
fn a_sender_in_user_space_is_judged_alike() {
    let seconds = |parts: &[(usize, u64)]| {
        let (mut way, mut bytes) = (leeway_kernel::Way::default(), 0);
        let rates = parts.iter().flat_map(|&(count, rate)| [rate].repeat(10 * count));
        for (tenth, rate) in (1..).zip(rates) {
            bytes += rate / 10;
            way.look(1 << 40 | (tenth * 100_000), bytes, tenth * 100_000);
        }
        way.held_us()
    };
    assert_eq!(seconds(&[(20, 1_250_000)]), 0, "alone on the line");
    assert_eq!(seconds(&[(5, 1_250_000), (4, 12_500), (5, 1_250_000)]), 4_000_000, "four seconds of a rival");
    assert_eq!(seconds(&[(2, 400_000), (3, 700_000), (5, 1_250_000)]), 0, "growing towards the line");
}

/// Checks the judgement of an account of a law with the target `target_us` on each case.
fn told(target_us: u32, cases: &[(&str, Vec<Second>, bool)]) {
    let driver = driver();
    for (what, seconds, expected) in cases {
        let [seconds, permille, _] = account(&driver, target_us, seconds);
        assert_eq!(seconds > 0, *expected, "{what}: {seconds} s");
        assert!(!*expected || (400..=600).contains(&permille), "{what}: {permille}");
    }
    let _ = std::fs::remove_file(driver);
}

/// After these seconds: seconds of a share, its part in thousandths, microseconds of giving way.
fn account(driver: &PathBuf, target_us: u32, seconds: &[Second]) -> [u64; 3] {
    let mut child = Command::new(driver)
        .arg(target_us.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the driver");
    let mut input = child.stdin.take().expect("an input");
    for (part, lost, busy, queue_ms) in seconds {
        let (acked, watched) = ((part * LINE) as u64, (busy * 1e6) as u64);
        writeln!(input, "{acked} {lost} {watched} {}", (queue_ms * 1e3) as u64).expect("a driver that reads");
    }
    drop(input);
    let output = child.wait_with_output().expect("an end");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("three numbers, not {text:?}"))
}
