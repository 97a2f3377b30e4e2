import JSONTree
import ViglaClient

/// Someone who walks and lets friends watch.
final class Walker: @unchecked Sendable {
    // because it is used on the loop of its simulation only.
    let uid: String
    let client: HubClient
    /// The uids of the followers, all of them friends.
    var followers: [String] = []
    var walk: Walk
    var history = History()

    init(uid: String, client: HubClient, walk: Walk) {
        self.uid = uid
        self.client = client
        self.walk = walk
    }
}

/// Someone who watches friends walk.
final class Follower: @unchecked Sendable {
    // because it is used on the loop of its simulation only.
    let uid: String
    let client: HubClient
    /// Followed walkers, by index, with the steps seen of each.
    var trails: [Int: Trail] = [:]
    var seenPosts: Set<Key> = []
    var seenAnnouncements: Set<Key> = []

    init(uid: String, client: HubClient) {
        self.uid = uid
        self.client = client
    }
}
