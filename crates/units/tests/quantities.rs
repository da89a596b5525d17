//! Reading, printing and arithmetic of quantities.

use leeway_units::{Bytes, Duration, Rate, Size, Time};
use proptest::prelude::*;

#[test]
fn reads_what_people_write() {
    assert_eq!("50 ms".parse(), Ok(Duration::from_millis(50)));
    assert_eq!("1.5s".parse(), Ok(Duration::from_millis(1500)));
    assert_eq!("0.1 us".parse(), Ok(Duration::from_nanos(100)));
    assert_eq!("0".parse(), Ok(Duration::ZERO));
    assert_eq!("10 Mbit/s".parse(), Ok(Rate::from_bits_per_sec(10_000_000)));
    assert_eq!("1.72 Mb/s".parse(), Ok(Rate::from_bits_per_sec(1_720_000)));
    assert_eq!("2mbit".parse(), Ok(Rate::from_bits_per_sec(2_000_000)));
    assert_eq!("1.5 MB/s".parse(), Ok(Rate::from_bits_per_sec(12_000_000)));
    assert_eq!("12.5 kB".parse(), Ok(Bytes::new(12_500)));
    assert_eq!("84 pkt".parse(), Ok(Size::Packets(84)));
    assert_eq!("1.5 BDP".parse(), Ok(Size::Bdp(1_500_000)));
    assert_eq!("150 kB".parse(), Ok(Size::Bytes(Bytes::new(150_000))));
    assert_eq!("unlimited".parse(), Ok(Size::Unlimited));
    for text in ["0 BDP", "0.5 BDP", "10 BDP", "0.000001 BDP"] {
        assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
    }
}

#[test]
fn says_what_is_wrong_and_what_would_be_right() {
    let error = "10 Mquux".parse::<Rate>().unwrap_err().to_string();
    assert_eq!(error, "`10 Mquux` is not a rate such as \"10 Mbit/s\", \"600 kbit/s\" or \"1.5 MB/s\"");
    for bad in
        ["", " ", "ms", "-1 ms", "1..2 s", "50", "1e3 s", "99999999999999999999999999 h", ". s", "nan s"]
    {
        assert!(bad.parse::<Duration>().is_err(), "{bad:?} was taken for a duration");
    }
    assert!("1.5 pkt".parse::<Size>().is_err(), "half a packet is no buffer");
    assert!("5000000000 pkt".parse::<Size>().is_err());
}

#[test]
fn transmission_times_are_exact() {
    let ten = Rate::from_bits_per_sec(10_000_000);
    assert_eq!(ten.time_for(Bytes::new(1500)), Duration::from_micros(1200));
    assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), Duration::MAX);
    assert_eq!(
        Rate::from_bits_per_sec(8).time_for(Bytes::new(u64::MAX / 8)).secs_f64().round(),
        18_446_744_074.0
    );
    assert_eq!(ten.data_in(Duration::from_secs(1)), Bytes::new(1_250_000));
}

#[test]
fn arithmetic_stops_at_the_ends() {
    assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
    assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
    assert_eq!(Time::from_secs(1) - Time::from_secs(2), Duration::ZERO);
    assert_eq!(Duration::from_secs(1) / 0, Duration::MAX);
    assert_eq!(Time::NEVER.checked_add(Duration::from_nanos(1)), None);
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(n in any::<u64>(), m in any::<u32>(), k in 0u32..1_000_000_000) {
        prop_assert_eq!(Duration::from_nanos(n).to_string().parse(), Ok(Duration::from_nanos(n)));
        prop_assert_eq!(Rate::from_bits_per_sec(n).to_string().parse(), Ok(Rate::from_bits_per_sec(n)));
        prop_assert_eq!(Bytes::new(n).to_string().parse(), Ok(Bytes::new(n)));
        prop_assert_eq!(Size::Packets(m).to_string().parse(), Ok(Size::Packets(m)));
        prop_assert_eq!(Size::Bdp(u64::from(k)).to_string().parse(), Ok(Size::Bdp(u64::from(k))));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = (text.parse::<Duration>(), text.parse::<Rate>(), text.parse::<Bytes>(), text.parse::<Size>());
    }
}
