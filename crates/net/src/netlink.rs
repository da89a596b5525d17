//! Lists and events of the kernel's network configuration, by rtnetlink (RFC 3549).

use crate::{Error, Family};
use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Multicast groups of change messages: links, addresses and routes of both families
/// (linux/rtnetlink.h).
const CHANGES: u32 =
    RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE;
const RTMGRP_LINK: u32 = 0x1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV4_ROUTE: u32 = 0x40;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
const RTMGRP_IPV6_ROUTE: u32 = 0x400;

/// Most attempts at a list. The kernel marks a list that changed while it was read.
const ATTEMPTS: usize = 10;

/// Longest wait for a message of a list.
const PATIENCE: Duration = Duration::from_secs(10);

impl Family {
    fn of_netlink(self) -> AddressFamily {
        match self {
            Family::V4 => AddressFamily::Inet,
            Family::V6 => AddressFamily::Inet6,
        }
    }
}

/// All devices.
pub(crate) fn links() -> Result<Vec<LinkMessage>, Error> {
    list(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| match message {
        RouteNetlinkMessage::NewLink(link) => Some(link),
        _ => None,
    })
}

/// The name of a device.
pub(crate) fn name(link: &LinkMessage) -> Option<String> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    })
}

/// The host's own address in a message, and the address that stands for the network. They differ
/// on a point-to-point device, where the second address belongs to the other end.
pub(crate) fn ends(message: &AddressMessage) -> (Option<IpAddr>, Option<IpAddr>) {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Address(address) => Some(*address),
        _ => None,
    });
    (local.or(address), address)
}

/// All addresses of this host.
pub(crate) fn addresses() -> Result<Vec<AddressMessage>, Error> {
    list(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| match message {
        RouteNetlinkMessage::NewAddress(address) => Some(address),
        _ => None,
    })
}

/// All routes of a family, in every table.
pub(crate) fn routes(family: Family) -> Result<Vec<RouteMessage>, Error> {
    let mut asked = RouteMessage::default();
    asked.header.address_family = family.of_netlink();
    list(RouteNetlinkMessage::GetRoute(asked), |message| match message {
        RouteNetlinkMessage::NewRoute(route) => Some(route),
        _ => None,
    })
}

/// All routing rules of both families.
pub(crate) fn rules() -> Result<Vec<RuleMessage>, Error> {
    list(RouteNetlinkMessage::GetRule(RuleMessage::default()), |message| match message {
        RouteNetlinkMessage::NewRule(rule) => Some(rule),
        _ => None,
    })
}

/// A subscription to changes of links, addresses and routes.
#[derive(Debug)]
pub(crate) struct Changes(Socket);

impl Changes {
    /// Subscribes.
    pub fn hear() -> Result<Changes, Error> {
        socket(CHANGES).map(Changes).map_err(system("hear of addresses and routes"))
    }

    /// Waits for a change, at most `patience`, and returns whether there was one. Takes all
    /// messages that have arrived.
    pub fn wait(&self, patience: Duration) -> bool {
        let patience = Some(patience);
        if rustix::net::sockopt::set_socket_timeout(&self.0, rustix::net::sockopt::Timeout::Recv, patience)
            .is_err()
        {
            return true;
        }
        let changed = match self.0.recv_from_full() {
            Ok(_) => true,
            // The socket's buffer was too small for all messages, so something has changed.
            Err(error) => error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()),
        };
        let mut more = Vec::with_capacity(1);
        while changed && self.0.recv(&mut more, rustix::net::RecvFlags::DONTWAIT.bits() as i32).is_ok() {
            more.clear();
        }
        changed
    }
}

fn socket(groups: u32) -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind(&SocketAddr::new(0, groups))?;
    Ok(socket)
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::System { what, error }
}

/// The whole list of one kind.
fn list<T>(
    asked: RouteNetlinkMessage,
    take: impl Fn(RouteNetlinkMessage) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut asked = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(asked));
    asked.finalize();
    let mut bytes = vec![0; asked.buffer_len()];
    asked.serialize(&mut bytes);
    let attempt = || list_once(&bytes, &take);
    let mut attempts = (0..ATTEMPTS).map(|_| attempt()).filter_map(Result::transpose);
    // After `ATTEMPTS` lists that changed while they were read there is an error.
    let unfinished = || Err(io::Error::other("it changes all the time"));
    attempts.next().unwrap_or_else(unfinished).map_err(system("list addresses, routes and rules"))
}

/// The list of one attempt; `None` if something changed meanwhile.
fn list_once<T>(
    asked: &[u8],
    take: &impl Fn(RouteNetlinkMessage) -> Option<T>,
) -> io::Result<Option<Vec<T>>> {
    let socket = socket(0)?;
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE))?;
    socket.send(asked, 0)?;
    let (mut all, mut whole) = (Vec::new(), true);
    loop {
        let (packet, _) = socket.recv_from_full()?;
        let mut rest = &packet[..];
        while !rest.is_empty() {
            let buffer = NetlinkBuffer::new_checked(rest).map_err(io::Error::other)?;
            let length = (buffer.length() as usize).next_multiple_of(4).min(rest.len());
            whole &= buffer.flags() & NLM_F_DUMP_INTR == 0;
            // Messages that the library cannot parse are of other kinds than those that are
            // listed.
            if let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) {
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(whole.then_some(all)),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => all.extend(take(message)),
                    _ => {}
                }
            }
            rest = &rest[length..];
        }
    }
}

/// The list changed while it was read (linux/netlink.h).
const NLM_F_DUMP_INTR: u16 = 0x10;
