//! What runs on the machines of the test, in Python.

pub const FETCH: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.settimeout(5)
s.sendall(b'hello')
print(s.recv(100).decode())
";

pub const WAIT: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.settimeout(60)
print(s.recv(100).decode(), flush=True)
try:
    s.recv(100)
except ConnectionError:
    pass
print('closed')
";

pub const SERVER: &str = "
import http.server
import socket, socketserver, sys, threading
def seen(address):
    return address[0].removeprefix('::ffff:').encode()
class Web(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(100)
        self.request.sendall(seen(self.client_address))
class Greeting(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(seen(self.client_address))
        self.request.recv(100)
class Http(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(seen(self.client_address))))
        self.end_headers()
        self.wfile.write(seen(self.client_address))
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        bytes, socket = self.request
        socket.sendto(seen(self.client_address).ljust(len(bytes)), self.client_address)
class Names(Echo):
    def handle(self):
        bytes, socket = self.request
        socket.sendto(bytes[:2] + b'\\x80' + bytes[3:] + seen(self.client_address), self.client_address)
class NamesTcp(socketserver.BaseRequestHandler):
    def handle(self):
        while question := self.request.recv(2000):
            answer = question[2:4] + b'\\x80' + question[5:] + seen(self.client_address)
            self.request.sendall(len(answer).to_bytes(2, 'big') + answer)
class Udp6(socketserver.ThreadingUDPServer):
    address_family = socket.AF_INET6
    # As daemons do; else nobody could answer from that port for another address.
    allow_reuse_address = True
class Tcp6(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True
def serve(kind, handler, port, address='::'):
    threading.Thread(target=kind((address, port), handler).serve_forever).start()
for kind, handler, port in [(Tcp6, Web, 80), (Tcp6, Greeting, 82), (Tcp6, Http, 8080), (Udp6, Echo, 443), (Udp6, Echo, 444),
                            (Udp6, Names, 53), (Tcp6, NamesTcp, 53)]:
    serve(kind, handler, port)
# Datagrams are answered from the address that was asked.
if 'lwgi' in sys.argv[1]:
    for address in ['::ffff:192.168.41.2', 'fd41::2']:
        serve(Udp6, Echo, 443, address)
";

/// `echo` and `name_...` of arguments: address, port, how many.
pub const DATAGRAMS: &str = "
import socket, sys
address, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
attempts = 5
family = socket.AF_INET6 if ':' in address else socket.AF_INET
def ask(s, bytes):
    # Datagrams may be lost on a machine that is busy.
    for attempt in range(attempts):
        s.sendto(bytes, (address, port))
        try:
            answer, sender = s.recvfrom(2000)
        except TimeoutError:
            continue
        assert sender[:2] == (address, port), sender
        return answer
    sys.exit()
def datagrams():
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(1)
    return s
def echo():
    s = datagrams()
    return {ask(s, bytes(1200)).decode().strip() for n in range(count)}.pop()
def question(flags=1):
    return bytes([7, port, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b'\\x04name\\x04test\\x00\\x00\\x01\\x00\\x01'
def name_udp():
    answer = ask(datagrams(), question())
    assert answer[:2] == question()[:2] and answer[2] == 0x80
    return answer[len(question()):].decode()
def update():
    return ask(datagrams(), question(0x28))
def name_tcp():
    s = socket.create_connection((address, port), 5)
    s.settimeout(5)
    for turn in range(2):
        s.sendall(len(question()).to_bytes(2, 'big') + question())
        answer = s.recv(2000)
    return answer[2 + len(question()):].decode()
";
