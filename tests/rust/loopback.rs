//! Connections from distinct loopback addresses: the broker delays authentication attempts by address, which would
//! disturb tests with wrong credentials.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

/// The first address, 127.1.0.0: no daemon and no other test client uses addresses from here on.
const FIRST: u32 = 0x7f01_0000;

/// Connects to the IPv4 address `to` from the loopback address with this number, or from 127.0.0.1 if the system has no
/// other loopback addresses.
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
