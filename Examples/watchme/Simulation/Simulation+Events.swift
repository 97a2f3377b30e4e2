import Glibc
import JSONTree
import ViglaClient
import WireProtocols

/// The walkers' actions, and the followers' view of them.
extension Simulation {
    // MARK: positions

    /// One position for all followers, in one update.
    func tick(_ walker: Walker) {
        let isFirst = walker.history.steps.isEmpty
        let fix = walker.walk.step(seconds: Double(options.tickMs) / 1_000)
        let position = Self.json(
            #"{"latitude":\#(fix.latitude),"longitude":\#(fix.longitude),"at":{".sv":"timestamp"},"acc":5,"spd":\#(fix.speed),"hdg":\#(fix.heading)}"#)
        var writes: [(Path, WriteValue)] = []
        for follower in walker.followers {
            let place = Path(["users-follow", Key(follower), Key(walker.uid)])
            if isFirst {
                writes.append((place.appending(Key("startedAt")), Self.json(#"{".sv":"timestamp"}"#)))
                writes.append((place.appending(Key("status")), WriteValue("active")))
                writes.append((place.appending(Key("online")), WriteValue(true)))
            }
            writes.append((place.appending(Key("current")), position))
        }
        walker.history.add(fix, sentNs: Self.nowNs())
        tally.written += 1
        tally.expected += walker.followers.count
        walker.client.update(.root, writes) { [self] result in
            switch result {
            case .success: tally.acknowledged += 1
            case .failure(let error): tally.failed("\(walker.uid)'s position: \(error)")
            }
        }
    }

    func observePosition(_ follower: Follower, of index: Int) {
        let place = Path(["users-follow", Key(follower.uid), Key(walkers[index].uid), "current"])
        _ = follower.client.observe(place) { [self] observation in
            switch observation {
            case .event(.value(let value), _): if value.exists { sawPosition(follower, index, value) }
            case .event, .reset: break
            case .ended(let error): tally.failed("\(follower.uid) may not watch \(walkers[index].uid): \(error)")
            }
        }
    }

    private func sawPosition(_ follower: Follower, _ index: Int, _ value: Node) {
        let nowNs = Self.nowNs()
        let (latitude, longitude) = (value.child("latitude").number, value.child("longitude").number)
        let history = walkers[index].history
        guard let latitude, let longitude, let verdict = follower.trails[index]?.judge(latitude: latitude, longitude: longitude, history) else {
            tally.strange += 1
            return
        }
        switch verdict {
        case .expected(let step): tally.delivered(afterNs: nowNs - history.steps[step].sentNs)
        case .skipped(let missed, let step):
            tally.lost += missed
            tally.delivered(afterNs: nowNs - history.steps[step].sentNs)
        case .again: tally.outOfOrder += 1
        case .unknown: tally.strange += 1
        }
    }

    // MARK: danger

    /// A walker raises the alarm: the post, the walker's own copy and one for each friend's timeline, in one update. Every other alarm
    /// comes from the first walker, whose follower is the one that the printed link shows.
    func raiseDanger() {
        let chosen = tally.posts % 2 == 0 ? walkers.first : walkers.randomElement(using: &random)
        guard let walker = chosen, let fix = walker.history.steps.last?.fix else { return }
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        let key = pushIDs.next(now: Int64(now.tv_sec) * 1_000 + Int64(now.tv_nsec / 1_000_000))
        let post = WriteValue([
            "user": .string(walker.uid), "timestamp": .int(Int64(now.tv_sec)), "latitude": .number(fix.latitude), "longitude": .number(fix.longitude),
            "description": .string("Someone follows me near \(walker.walk.neighbourhood)."), "policeArrived": false,
        ])
        var writes: [(Path, WriteValue)] = [(Path(["posts", key]), post), (Path(["users-posts", Key(walker.uid), key]), post)]
        for friend in walker.followers { writes.append((Path(["timeline", Key(friend), key]), post)) }
        posts.insert(key)
        tally.posts += 1
        tally.postsExpected += walker.followers.count
        walker.client.update(.root, writes) { [self] result in
            if case .failure(let error) = result { tally.failed("\(walker.uid)'s alarm: \(error)") }
        }
    }

    func observeTimeline(_ follower: Follower) {
        _ = follower.client.observe(Path(["timeline", Key(follower.uid)]), .children) { [self] observation in
            switch observation {
            case .event(.added(let key, _, _, _), _):
                guard posts.contains(key) else { return }
                if follower.seenPosts.insert(key).inserted { tally.postsDelivered += 1 } else { tally.repeated += 1 }
            case .event, .reset: break
            case .ended(let error): tally.failed("\(follower.uid) may not watch the timeline: \(error)")
            }
        }
    }

    // MARK: announcements

    /// The operator sends an announcement to everybody.
    func announce() {
        let places = Athens.places
        let place = places[Int.random(in: 0..<places.count, using: &random)].name
        let text = Node.string("Metro: no trains at \(place) until further notice.").json
        tally.announcements += 1
        tally.announcementsExpected += followers.count
        operatorClient.push("announcements", Self.json(#"{"text":\#(text),"at":{".sv":"timestamp"}}"#)) { [self] result in
            switch result {
            case .success(let key):
                announcements.insert(key)
                tally.announcementsDelivered += earlyAnnouncements.removeValue(forKey: key) ?? 0
            case .failure(let error): tally.failed("announcement: \(error)")
            }
        }
    }

    func observeAnnouncements(_ follower: Follower) {
        _ = follower.client.observe("announcements", .children) { [self] observation in
            switch observation {
            case .event(.added(let key, _, _, _), _):
                // Announcements of earlier runs arrive before the walk begins; some of this run arrive before their key is known.
                guard phase != .preparing else { return }
                guard follower.seenAnnouncements.insert(key).inserted else { return tally.repeated += 1 }
                if announcements.contains(key) { tally.announcementsDelivered += 1 } else { earlyAnnouncements[key, default: 0] += 1 }
            case .event, .reset: break
            case .ended(let error): tally.failed("\(follower.uid) may not watch the announcements: \(error)")
            }
        }
    }

    // MARK: values

    /// A value from JSON in this program, with server values.
    private static func json(_ text: String) -> WriteValue { (try? WriteValue(json: text)) ?? WriteValue(.null) }
}

extension Node {
    fileprivate var number: Double? {
        switch leaf {
        case .int(let value): Double(value)
        case .double(let value): value
        default: nil
        }
    }
}
