import DispatchNet
import HubEngine
import Synchronization
import WireProtocols

/// One connected program: speaks one of the hub's protocols, whatever carries it.
///
/// Made and used on the loop of its lane, but for what the engine keeps in `Client`.
class Session: Client, SocketListener, @unchecked Sendable {
    // Sendable: everything declared here is constant and used on the lane's loop only.
    final let carrier: any Carrier
    final let database: Database
    unowned final let server: Server

    init(_ carrier: any Carrier, lane: Int, database: Database, server: Server, dialect: Dialect) {
        self.carrier = carrier
        self.database = database
        self.server = server
        super.init(lane: lane, dialect: dialect)
    }

    /// A whole text message; the bytes are valid during the call.
    func received(text: UnsafeRawBufferPointer) {}

    /// The peer is gone.
    final func ended() {
        isGone.store(true, ordering: .relaxed)
        database.submit(.end, from: self)
    }
}
