"""The network between a client and a hub, which can break."""

import socket
import struct
import threading


class Link:
    """Passes on what goes to and comes from a port of this machine. `cut` ends all connections as a tunnel does, without a goodbye, and
    lets none in; `mend` lets them in again; `hold` keeps back what the hub says."""

    def __init__(self, port):
        self.hub_port = port
        self.gate = threading.Condition()
        self.pairs = []
        self.is_cut = False
        self.is_held = False
        self.left = None        # bytes of the hub that are forwarded before the link is cut; None: any number
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, after=None):
        """At once, or behind so many bytes more of what the hub says."""
        with self.gate:
            if after is not None:
                self.left = after
                return
            self._cut()

    def mend(self, after=None):
        """For good, or until the hub has said so many bytes."""
        with self.gate:
            self.is_cut, self.is_held, self.left = False, False, after
            self.gate.notify_all()

    def hold(self):
        with self.gate:
            self.is_held = True

    def close(self):
        self.cut()
        self.listener.close()

    def _cut(self):
        self.is_cut, self.is_held, self.left = True, False, None
        self.cuts += 1
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for one in pair:
                reset(one)
        self.gate.notify_all()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with self.gate:
                hub = None
                if not self.is_cut:
                    try:
                        hub = socket.create_connection(("127.0.0.1", self.hub_port))
                    except OSError:
                        pass  # the hub is not running
                if hub is None:
                    reset(client)
                    continue
                for one in (client, hub):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.pairs.append((client, hub))
                self.gate.notify_all()
            threading.Thread(target=self._pass, args=(client, hub, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(hub, client, True), daemon=True).start()

    def _pass(self, source, target, is_of_hub):
        try:
            while piece := source.recv(65536):
                if is_of_hub:
                    with self.gate:
                        self.gate.wait_for(lambda: not self.is_held)
                        if self.left is not None and len(piece) >= self.left:
                            target.sendall(piece[:self.left])
                            self._cut()
                            return
                        if self.left is not None:
                            self.left -= len(piece)
                target.sendall(piece)
        except OSError:
            pass
        for one in (source, target):
            reset(one)


def reset(one):
    """Ends a connection without a goodbye, also for a thread that reads it."""
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
