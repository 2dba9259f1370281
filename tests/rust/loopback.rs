//! Connections from loopback addresses of their own: the broker makes attempts to authenticate wait by their address, which is not
//! what every test with wrong credentials is about.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

/// The first address, 127.1.0.0: no daemon and no other client of a test uses those from here on.
const FIRST: u32 = 0x7f01_0000;

/// Connects to the IPv4 address `to` from the loopback address of this number; where a system has no loopback address but
/// 127.0.0.1, from that.
pub fn connect(number: u16, to: SocketAddr) -> io::Result<TcpStream> {
    let from = SocketAddr::from((Ipv4Addr::from_bits(FIRST + u32::from(number)), 0));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    match socket.bind(&from.into()) {
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => return TcpStream::connect(to),
        bound => bound?,
    }
    socket.connect(&to.into())?;
    Ok(socket.into())
}
