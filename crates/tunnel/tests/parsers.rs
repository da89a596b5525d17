//! Readers of bytes and text from the network and from people: what was written reads back, and
//! nothing panics.

use leeway_tunnel::owd::Report;
use leeway_tunnel::wire::{self, Datagram, FRAME_LIMIT, Frame, Greeting, Welcome};
use leeway_tunnel::{Fingerprint, Network4, Secret, Standing, Token};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_a_datagram_or_not(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Datagram::Packet { packet, .. }) = Datagram::read(&bytes) {
            prop_assert_eq!(packet, &bytes[wire::PACKET_HEADER..]);
        }
        // Random bytes behind each kind of message.
        for kind in 0..=32 {
            let kinded = [&[kind], bytes.as_slice()].concat();
            let _ = Datagram::read(&kinded);
            let _ = Frame::read(&kinded);
        }
    }

    #[test]
    fn datagrams_read_back(stamp_us: u32, id: u16, second: bool, bytes in prop::collection::vec(any::<u8>(), 1..99)) {
        let packet = [wire::packet_header(stamp_us).as_slice(), &bytes].concat();
        prop_assert_eq!(Datagram::read(&packet), Ok(Datagram::Packet { stamp_us, packet: &bytes }));
        let half = [wire::half_header(stamp_us, id, second).as_slice(), &bytes].concat();
        prop_assert_eq!(Datagram::read(&half), Ok(Datagram::Half { stamp_us, id, second, part: &bytes }));
        let report = Report { delay_us: stamp_us, stamp_us: !stamp_us, packets: id };
        let reported = wire::report_datagram(&report);
        prop_assert_eq!(Datagram::read(&reported), Ok(Datagram::Report(report)));
        let foreground = wire::foreground_datagram(stamp_us, !stamp_us);
        let (expected_bytes, came_bytes) = (stamp_us, !stamp_us);
        prop_assert_eq!(Datagram::read(&foreground), Ok(Datagram::Foreground { expected_bytes, came_bytes }));
        let some = |number: u32| (number > 0).then_some(number);
        let load_permille = id % 1001;
        let standing = Standing { paused_s: some(stamp_us), users: id, rate_kbps: some(!stamp_us), load_permille };
        let told = wire::standing_datagram(&standing);
        prop_assert_eq!(Datagram::read(&told), Ok(Datagram::Standing(standing)));
        let framed = wire::standing_frame(&standing);
        let (body, used) = wire::frame(&framed).unwrap().unwrap();
        prop_assert_eq!((Frame::read(body), used), (Ok(Frame::Standing(standing)), framed.len()));
        for whole in [reported.as_slice(), &foreground, &told] {
            let longer = [whole, &bytes].concat();
            prop_assert!(Datagram::read(&longer).is_err());
        }
    }

    #[test]
    fn a_stream_in_pieces_is_the_same_stream(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..6),
        cut in 0usize..2000,
    ) {
        let stream: Vec<u8> = packets
            .iter()
            .flat_map(|packet| [wire::frame_header(packet.len()).as_slice(), packet].concat())
            .collect();
        let cut = cut % (stream.len() + 1);
        let mut read = Vec::new();
        let mut held: Vec<u8> = Vec::new();
        for piece in [&stream[..cut], &stream[cut..]] {
            held.extend_from_slice(piece);
            while let Some((body, used)) = wire::frame(&held).unwrap() {
                let Ok(Frame::Packet(packet)) = Frame::read(body) else { panic!("not a packet") };
                read.push(packet.to_vec());
                held.drain(..used);
            }
        }
        prop_assert_eq!(read, packets);
        prop_assert!(held.is_empty());
    }

    #[test]
    fn any_stream_is_bounded(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        let mut at = 0;
        while let Ok(Some((body, used))) = wire::frame(&bytes[at..]) {
            prop_assert!((1..=FRAME_LIMIT).contains(&body.len()));
            let _ = Frame::read(body);
            at += used;
        }
    }

    #[test]
    fn greetings_read_back(mtu: u16, v4: u32, v6: u128, text in "[ -~]{0,150}") {
        for greeting in [
            Greeting::Hello { mtu, program: text.clone() },
            Greeting::Refuse { why: text.clone() },
            Greeting::Welcome(Welcome {
                v4: v4.into(),
                v6: v6.into(),
                server_v4: (!v4).into(),
                server_v6: (!v6).into(),
                mtu,
                law: text.clone(),
            }),
        ] {
            let bytes = greeting.to_frame();
            let (body, used) = wire::frame(&bytes).unwrap().unwrap();
            prop_assert_eq!(used, bytes.len());
            prop_assert_eq!(Frame::read(body), Ok(Frame::Greeting(greeting)));
        }
    }

    #[test]
    fn tokens_read_back_and_notice_damage(server: [u8; 32], secret: [u8; 32], at: usize, host in "[a-z]{1,20}", port in 1u16..) {
        let token = Token::new(&format!("{host}:{port}"), Fingerprint(server), Secret::from_bytes(secret)).unwrap();
        let text = token.to_string();
        prop_assert_eq!(text.parse::<Token>(), Ok(token));
        let at = at % text.len();
        let mut damaged = text.clone().into_bytes();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        prop_assert!(String::from_utf8(damaged).unwrap().parse::<Token>().is_err());
        prop_assert!(text[..at].parse::<Token>().is_err());
    }

    #[test]
    fn any_text_is_a_token_or_not(text in "(leeway1_)?[A-Za-z0-9_-]{0,300}") {
        let _ = text.parse::<Token>();
        let _ = text.parse::<Network4>();
    }
}

#[test]
fn texts_cannot_steer_a_terminal() {
    let why = "gone\u{1b}[2J".to_owned();
    let bytes = Greeting::Refuse { why }.to_frame();
    let (body, _) = wire::frame(&bytes).unwrap().unwrap();
    assert!(Frame::read(body).is_err());
}

#[test]
fn long_texts_are_cut_between_characters() {
    let bytes = Greeting::Refuse { why: "ä".repeat(300) }.to_frame();
    let (body, _) = wire::frame(&bytes).unwrap().unwrap();
    assert_eq!(Frame::read(body), Ok(Frame::Greeting(Greeting::Refuse { why: "ä".repeat(100) })));
}

#[test]
fn addresses_in_tokens_are_addresses() {
    let (server, secret) = (Fingerprint([1; 32]), Secret::from_bytes([2; 32]));
    for right in ["relay.example.org:4433", "192.0.2.1:1", "[2001:db8::1]:4433"] {
        assert!(Token::new(right, server, secret.clone()).is_ok(), "{right}");
    }
    for wrong in
        ["", "relay", "relay:", ":4433", "relay:0", "relay:70000", "2001:db8::1:4433", "a b:1", "http://a:1"]
    {
        assert!(Token::new(wrong, server, secret.clone()).is_err(), "{wrong}");
    }
}
