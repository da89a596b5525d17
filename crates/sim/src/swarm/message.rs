//! What peers tell each other, and the stream of bytes that carries it in order.

use super::pieces::{Bitfield, Block};
use std::collections::VecDeque;

/// A message between two peers, with the sizes of BEP 3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The handshake, and the pieces that the sender has.
    Bitfield(Bitfield),
    /// The sender has this piece now.
    Have(u32),
    /// Whether the sender wants anything that the receiver has.
    Interested(bool),
    /// Whether the sender refuses to serve the receiver.
    Choke(bool),
    /// The sender wants this block.
    Request(Block),
    /// The sender does not want this block any more.
    Cancel(Block),
    /// The block itself.
    Piece(Block),
}

impl Message {
    /// Bytes in the stream, where a block has `block` and the file `pieces` pieces.
    pub fn bytes(&self, block: u64, pieces: u32) -> u64 {
        match self {
            Message::Bitfield(_) => 68 + 5 + u64::from(pieces.div_ceil(8)),
            Message::Have(_) => 9,
            Message::Interested(_) | Message::Choke(_) => 5,
            Message::Request(_) | Message::Cancel(_) => 17,
            Message::Piece(_) => 13 + block,
        }
    }
}

/// The messages on one connection from one peer to another.
#[derive(Debug)]
pub struct Stream {
    /// The peer that speaks.
    pub peer: u32,
    /// The listener's place among its neighbours.
    pub at: u32,
    /// Payload of each segment that was sent and is not yet here with all before it.
    segments: VecDeque<u16>,
    /// Segments that are here with all before them, and their bytes.
    next: u32,
    arrived: u64,
    written: u64,
    /// Messages that are not here in full, each with the byte after its last.
    messages: VecDeque<(u64, Message)>,
}

impl Stream {
    /// Nothing was said yet.
    pub fn new(peer: u32, at: u32) -> Self {
        Stream {
            peer,
            at,
            segments: VecDeque::new(),
            next: 0,
            arrived: 0,
            written: 0,
            messages: VecDeque::new(),
        }
    }

    /// `message` is written, as `bytes`.
    pub fn write(&mut self, message: Message, bytes: u64) {
        self.written += bytes;
        self.messages.push_back((self.written, message));
    }

    /// The next segment is sent for the first time.
    pub fn sent(&mut self, payload: u16) {
        self.segments.push_back(payload);
    }

    /// The receiver has all segments before `next`.
    pub fn received(&mut self, next: u32) {
        while self.next < next {
            let Some(payload) = self.segments.pop_front() else { return };
            self.arrived += u64::from(payload);
            self.next += 1;
        }
    }

    /// The next message that is here in full.
    pub fn hear(&mut self) -> Option<Message> {
        let is_here = self.messages.front().is_some_and(|(end, _)| *end <= self.arrived);
        is_here.then(|| self.messages.pop_front()).flatten().map(|(_, message)| message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_heard_when_its_last_byte_is_there_and_in_order() {
        let mut stream = Stream::new(0, 0);
        let block = Block { piece: 1, block: 2 };
        stream.write(Message::Piece(block), 2_000);
        stream.write(Message::Have(7), 9);
        stream.sent(1_460);
        stream.sent(549);
        stream.received(1);
        assert_eq!(stream.hear(), None);
        stream.received(2);
        assert_eq!(stream.hear(), Some(Message::Piece(block)));
        assert_eq!(stream.hear(), Some(Message::Have(7)));
        assert_eq!(stream.hear(), None);
    }
}
