//! Swarms: they complete, bytes add up, free-riders wait, runs repeat, and errors in files are
//! reported.

use leeway_sim::results::{GroupSummary, PeerSummary, Run};
use leeway_sim::scenario::Scenario;

const FILE: u64 = 64 * 65_536;

/// A scenario: homes behind ADSL lines of their own, and a seed. `more` is further TOML.
fn street(homes: u32, law: &str, queue: &str, more: &str) -> String {
    format!(
        "duration = \"400 s\"\n\
         [swarm]\npieces = 64\npiece = \"65536 B\"\n\
         [[link]]\nname = \"adsl\"\ncount = {homes}\nfrom = \"home\"\nto = \"core\"\n\
         forward = {{ rate = \"600 kbit/s\", delay = \"10 ms\", buffer = \"64 kB\", queue = \"{queue}\" }}\n\
         reverse = {{ rate = \"8 Mbit/s\", delay = \"10 ms\", buffer = \"64 kB\", queue = \"{queue}\" }}\n\
         [[link]]\nname = \"fast\"\nfrom = \"source\"\nto = \"core\"\n\
         forward = {{ rate = \"2 Mbit/s\", delay = \"10 ms\", buffer = \"64 kB\" }}\n\
         reverse = {{ rate = \"20 Mbit/s\", delay = \"10 ms\", buffer = \"64 kB\" }}\n\
         [[flow]]\nname = \"seed\"\nfrom = \"source\"\nto = \"core\"\nlaw = \"{law}\"\n\
         app = {{ kind = \"peer\", seed = true }}\n\
         [[flow]]\nname = \"leech\"\ncount = {homes}\nfrom = \"home\"\nto = \"core\"\nlaw = \"{law}\"\n\
         app = {{ kind = \"peer\" }}\n{more}"
    )
}

fn run(text: &str, seed: u64) -> Run {
    let scenario = Scenario::parse(text, "swarm.toml").unwrap_or_else(|error| panic!("{error}"));
    leeway_sim::run(&scenario, seed).unwrap()
}

fn group<'a>(run: &'a Run, name: &str) -> &'a GroupSummary {
    run.windows[0].groups.iter().find(|group| group.name == name).unwrap()
}

fn peers(run: &Run, name: &str) -> PeerSummary {
    group(run, name).swarm.unwrap()
}

#[test]
fn a_swarm_of_ten_completes_and_every_byte_that_leaves_arrives() {
    for (law, queue) in [("cubic", "droptail"), ("ledbat", "droptail"), ("ebb", "fq_codel")] {
        let run = run(&street(10, law, queue, ""), 1);
        let (seed, leech) = (peers(&run, "seed"), peers(&run, "leech"));
        assert_eq!(group(&run, "leech").completed, 10, "{law} {queue}");
        assert_eq!(leech.unfinished, 0);
        assert_eq!(seed.uploaded_bytes + leech.uploaded_bytes, leech.downloaded_bytes, "{law} {queue}");
        assert_eq!(leech.downloaded_bytes - leech.wasted_bytes, 10 * FILE, "{law} {queue}");
        assert!(leech.wasted_bytes < FILE, "{leech:?}");
        assert!(leech.share_ratio_mean.unwrap() > 0.5, "most comes from other homes: {leech:?}");
        // The seed alone would take 168 s at 2 Mbit/s for all homes; all uplinks together take 42
        // s.
        let mean = group(&run, "leech").completion.unwrap().mean_s;
        assert!((42.0..120.0).contains(&mean), "{law} {queue}: {mean} s");
    }
}

/// The minimum distribution time (Kumar and Ross, Peer-assisted file distribution, HotWeb 2006): a
/// file of F bytes reaches the last of n homes after the largest of F/u_s, F/d and n F/(u_s + n
/// u). Headers alone take 5 %.
#[test]
fn no_swarm_is_faster_than_the_bound_by_hand_and_none_much_slower() {
    // Uplink of the seed, uplinks and downlinks of the homes in Mbit/s, and the factor by which a
    // swarm may be slower.
    for (homes, seed_up, up, down, most) in [
        (1, 2.0, 0.6, 8.0, 1.1),
        (1, 8.0, 0.6, 2.0, 1.1),
        (2, 1.0, 1.0, 8.0, 1.3),
        (10, 2.0, 0.6, 8.0, 1.6),
        (5, 0.5, 5.0, 8.0, 1.6),
    ] {
        let text = street(homes, "cubic", "fq_codel", "")
            .replacen("rate = \"600 kbit/s\"", &format!("rate = \"{up} Mbit/s\""), 1)
            .replacen("rate = \"8 Mbit/s\"", &format!("rate = \"{down} Mbit/s\""), 1)
            .replacen("rate = \"2 Mbit/s\"", &format!("rate = \"{seed_up} Mbit/s\""), 1);
        let file = FILE as f64 * 8e-6;
        let all = f64::from(homes) * file / (seed_up + f64::from(homes) * up);
        let bound = (file / seed_up).max(file / down).max(all);
        let run = run(&text, 1);
        assert_eq!(group(&run, "leech").completed, u64::from(homes));
        let last = group(&run, "leech").completion.unwrap().max_s;
        assert!((1.0..most).contains(&(last / bound)), "{homes} homes: {last} s, bound {bound} s");
    }
}

/// Homes leave when they have the file. A free-rider is served less while they are there, and ends
/// later.
#[test]
fn who_gives_nothing_waits_longer() {
    let rider = "[[flow]]\nname = \"rider\"\ncount = 3\nfrom = \"home\"\nto = \"core\"\n\
                 app = { kind = \"peer\", slots = 0 }\n\
                 [[window]]\nname = \"early\"\nfrom = \"40 s\"\nto = \"200 s\"\n\
                 [[window]]\nname = \"all\"\nto = \"400 s\"\n";
    // A file long enough for tit-for-tat: 27 choices. At the first one nobody has given anything
    // yet.
    let text = street(12, "cubic", "fq_codel", rider).replacen("pieces = 64", "pieces = 256", 1);
    let text = text.replacen("app = { kind = \"peer\" }", "app = { kind = \"peer\", stay = \"1 s\" }", 1);
    let [mut gives, mut takes, mut given, mut taken] = [0.0; 4];
    for seed in 1..=5 {
        let run = run(&text, seed);
        let [early, all] = [0, 1].map(|window: usize| {
            let groups = &run.windows[window].groups;
            ["leech", "rider"].map(|name| groups.iter().find(|group| group.name == name).unwrap())
        });
        assert_eq!([all[0].completed, all[1].completed], [12, 3]);
        assert_eq!(all[1].swarm.unwrap().uploaded_bytes, 0);
        gives += all[0].completion.unwrap().mean_s / 5.0;
        takes += all[1].completion.unwrap().mean_s / 5.0;
        given += early[0].swarm.unwrap().served_share.unwrap() / 5.0;
        taken += early[1].swarm.unwrap().served_share.unwrap() / 5.0;
    }
    assert!(takes > 1.1 * gives, "{takes} s beside {gives} s");
    assert!(taken < 0.8 * given, "served {taken} of the time beside {given}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let text = street(10, "ledbat", "droptail", "");
    let (one, again, other) = (run(&text, 1), run(&text, 1), run(&text, 2));
    let json = |run: &Run| serde_json::to_string(&run.windows).unwrap();
    assert_eq!(json(&one), json(&again));
    assert_ne!(json(&one), json(&other));
}

/// The seed leaves after 60 s, homes soon after they have the file, or at 100 s. The report counts
/// peers that did not complete.
#[test]
fn peers_come_and_go() {
    let text =
        street(10, "cubic", "droptail", "start = { uniform = [\"0 s\", \"60 s\"] }\nstop = \"100 s\"\n")
            .replacen("seed = true }", "seed = true, stay = \"60 s\" }", 1)
            .replacen("app = { kind = \"peer\" }", "app = { kind = \"peer\", stay = \"5 s\" }", 1);
    let run = run(&text, 1);
    let leech = peers(&run, "leech");
    let completed = group(&run, "leech").completed;
    assert!(completed > 0 && completed < 10, "{completed}");
    assert_eq!(u64::from(leech.unfinished) + completed, 10);
    let sent = leech.uploaded_bytes + peers(&run, "seed").uploaded_bytes;
    assert!(sent >= leech.downloaded_bytes, "what was on the way to a peer that left is lost");
}

#[test]
fn like_lines_are_reported_together() {
    let call =
        "[[flow]]\nname = \"call\"\ncount = 10\nfrom = \"home\"\nto = \"core\"\napp = { kind = \"voice\" }\n";
    let run = run(&street(10, "cubic", "droptail", call), 1);
    let line = &run.windows[0].links[0];
    assert_eq!((line.name.as_str(), line.capacity_bps), ("adsl", 6e6));
    assert_eq!(run.windows[0].links.len(), 4);
    assert!((0.05..0.99).contains(&line.utilisation), "{line:?}");
    // Each home has a line of its own: ten calls of 80 kbit/s fit, which one line of 600 kbit/s
    // could not carry.
    assert!((group(&run, "call").throughput_bps - 10.0 * 80e3).abs() < 20e3);
}

#[test]
fn what_is_wrong_with_a_swarm_is_told() {
    let right = street(10, "cubic", "droptail", "");
    for (from, to, told) in [
        ("pieces = 64", "pieces = 0", "a file of no pieces"),
        ("piece = \"65536 B\"", "piece = \"65537 B\"", "no whole number of blocks"),
        ("seed = true", "seed = false", "there is no seed"),
        ("[swarm]\npieces = 64\npiece = \"65536 B\"\n", "", "there is no file for peers to share"),
        ("pieces = 64", "pieces = 64\nneighbours = 0", "0 is out of bounds"),
        ("pieces = 64", "", "`pieces` is missing"),
        ("count = 10\nfrom = \"home\"", "count = 0\nfrom = \"home\"", "0 is out of bounds"),
        ("count = 10\nfrom = \"home\"", "count = 30000\nfrom = \"home\"", "30000 is out of bounds"),
        ("from = \"source\"\nto = \"core\"\nlaw", "from = \"source\"\nto = \"home\"\nlaw", "do not meet"),
        ("kind = \"peer\", seed", "kind = \"peer\", codec = \"g711\", seed", "no `codec`"),
        ("kind = \"peer\", seed", "kind = \"bulk\", seed", "no `seed`"),
        ("seed = true", "seed = true, stay = \"0 s\"", "stay"),
    ] {
        let text = right.replacen(from, to, 1);
        assert_ne!(text, right, "{from}");
        let error = Scenario::parse(&text, "swarm.toml").expect_err(to).to_string();
        assert!(error.contains(told), "{to}: {error}");
    }
}
