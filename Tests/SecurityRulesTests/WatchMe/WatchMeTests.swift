import JSONTree
import SecurityRules
import Testing

/// The acceptance rows of WatchMe that depend on rules; each test lists its rows.
@Suite(.timeLimit(.minutes(30))) struct WatchMeTests {
    private static let picture: Node = "https://files.example.org/n.jpg"

    // Rows 3 and 4.
    @Test func unverifiedUser_signsUp_butNeitherAsksNorPosts() throws {
        var city = try City()
        let signUp: [(String, Node)] = [
            ("/users/nina/name", "Nina"), ("/users/nina/email", "nina@example.org"), ("/users/nina/profileImageUrl", Self.picture),
        ]
        #expect(try city.writes("nina", verified: false, signUp))
        #expect(try city.reads("nina", "/users/nina", verified: false))
        #expect(try city.reads("ada", "/users/nina"))
        #expect(try !city.reads(nil, "/users/nina"))
        #expect(try city.sets("nina", verified: false, "/users/nina/email", "nina@example.org"))
        #expect(try !city.sets("nina", verified: false, "/users/nina/email", "ada@example.org"), "not the account's own")
        #expect(city.tree.node(at: "users/nina") == ["name": "Nina", "profileImageUrl": Self.picture], "no address is stored")
        #expect(try !city.sets("ada", "/users/nina/name", "Nine"))
        #expect(try !city.sets("nina", "/users/nina/age", 30))
        #expect(try !city.sets("nina", "/users/nina/name", ""))
        #expect(try !city.sets("nina", "/users/nina/name", .string(String(repeating: "n", count: 61))))
        #expect(try !city.sets("nina", "/users/nina/profileImageUrl", "http://files.example.org/n.jpg"))
        #expect(try !city.sets("nina", "/users/nina/searchName", "Nina"))
        #expect(try city.sets("nina", "/users/nina/searchName", "nina"))

        let request: [(String, Node)] = [("/users-friends/nina/ada", "requested"), ("/users-friends/ada/nina", "pending")]
        let post = city.post([("user", "nina"), ("latitude", 39.6390), ("longitude", 22.4191)])
        #expect(try !city.writes("nina", verified: false, request))
        #expect(try !city.sets("nina", verified: false, "/posts/n1", post))
        #expect(try city.writes("nina", request))
        #expect(try city.sets("nina", "/posts/n1", post))
        #expect(try city.writes("nina", request.map { ($0.0, .null) }))
    }

    // Row 5 and the queries of rows 6 and 26.
    @Test func users_areSearchedByName_neverListed() throws {
        let city = try City()
        func search(_ child: String, _ from: String?, _ to: String?) -> QueryVariables {
            QueryVariables(orderByChild: child, startAt: from.map { .string($0) }, endAt: to.map { .string($0) })
        }
        #expect(try !city.reads("mallory", "/users"))
        #expect(try !city.reads("mallory", "/users", query: search("name", "", "\u{f8ff}")))
        #expect(try !city.reads("mallory", "/users", query: search("name", nil, "\u{f8ff}")))
        #expect(try !city.reads("mallory", "/users", query: search("email", "a", "b")))
        #expect(try !city.reads("mallory", "/users", query: search("name", "El", nil)))
        #expect(try city.reads("danae", "/users", query: search("name", "El", "El\u{f8ff}")))
        #expect(try city.reads("danae", "/users", query: search("searchName", "el", "el\u{f8ff}")))
        #expect(try !city.reads("nina", "/users", query: search("name", "El", "El\u{f8ff}"), verified: false))
        #expect(try !city.reads(nil, "/users") && !city.reads(nil, "/posts") && !city.reads("ada", "/"))
        #expect(try city.reads("eleni", "/posts"))
        #expect(city.rules.indexes(at: "/users") == ["name", "searchName"])
    }

    // Rows 8 to 13.
    @Test func friendship_takesBothSides_andNobodyElse() throws {
        var city = try City()
        // 8: accepts; a third person cannot.
        let accept: [(String, Node)] = [("/users-friends/danae/andreas", "added"), ("/users-friends/andreas/danae", "added")]
        #expect(try !city.writes("mallory", accept))
        #expect(try !city.writes("andreas", accept))
        #expect(try city.writes("danae", accept))
        // 9: a request in two writes, own half first; the other half first is refused.
        #expect(try !city.sets("danae", "/users-friends/ada/danae", "pending"))
        #expect(try city.sets("danae", "/users-friends/danae/ada", "requested"))
        #expect(try city.sets("danae", "/users-friends/ada/danae", "pending"))
        // 10: accepting for the other side.
        #expect(try !city.sets("danae", "/users-friends/ada/danae", "added"))
        #expect(try !city.writes("danae", [("/users-friends/ada/danae", "added"), ("/users-friends/danae/ada", "added")]))
        #expect(try !city.sets("danae", "/users-friends/danae/ada", "added"))
        // 11
        #expect(try !city.sets("mallory", "/users-friends/eleni/mallory", "pending"))
        #expect(try !city.sets("mallory", "/users-friends/mallory/mallory", "requested"))
        #expect(try !city.sets("mallory", "/users-friends/mallory/nobody", "requested"))
        #expect(try !city.sets("mallory", "/users-friends/mallory/eleni", "added"))
        // 12
        #expect(try !city.sets("mallory", "/users-friends/ada/eleni", .null))
        #expect(try !city.sets(nil, "/users-friends/ada/eleni", .null))
        #expect(try !city.reads("mallory", "/users-friends/ada") && city.reads("ada", "/users-friends/ada"))
        // 13
        #expect(try city.writes("ada", [("/users-friends/ada/danae", "added"), ("/users-friends/danae/ada", "added")]))
        #expect(try city.sets("eleni", "/users-friends/ada/eleni", .null))
        #expect(try city.sets("eleni", "/users-friends/ada/eleni", .null))
    }

    // Rows 14 to 20.
    @Test func danger_reachesFriends_andNobodyElse() throws {
        var city = try City()
        try city.befriend("danae", "ada")
        try city.befriend("danae", "andreas")
        // 14, and 15: one stranger in the update refuses all of it.
        #expect(try city.danger("p1", city.post(), to: ["ada", "andreas"]))
        #expect(try !city.danger("p2", city.post(), to: ["ada", "andreas", "mallory"]))
        #expect(city.tree.node(at: "/posts/p2").isNull)
        // 16: the new form; the hub writes the copies.
        #expect(try city.sets("danae", "/posts/p2", city.post()))
        for place in ["/users-posts/danae/p2", "/timeline/ada/p2", "/timeline/andreas/p2"] { try city.hub(place, city.post()) }
        // 18: no description.
        #expect(try city.danger("p3", city.post([("description", .null)]), to: ["ada", "andreas"]))
        // 19: an edit of all copies is allowed; an edit of some would make a copy differ from its post.
        #expect(try city.danger("p1", "Bag snatched, man arrested", to: ["ada", "andreas"], also: "/description"))
        #expect(try !city.sets("danae", "/timeline/ada/p1/description", "other"))
        #expect(try !city.sets("danae", "/users-posts/danae/p1/description", "other"))
        #expect(try city.danger("p1", true, to: ["ada", "andreas"], also: "/policeArrived"))
        // 20: a friend added later has no entry; the author may read, and continue to edit.
        try city.befriend("eleni", "danae")
        #expect(try city.reads("danae", "/timeline/eleni/p1"))
        #expect(try !city.reads("mallory", "/timeline/eleni/p1") && !city.reads(nil, "/timeline/eleni/none"))
        #expect(try city.sets("danae", "/posts/p1/description", "Arrested"))
        #expect(try city.reads("ada", "/timeline/ada") && !city.reads("danae", "/timeline/ada"))
    }

    // Row 17.
    @Test(arguments: [
        [("user", "ada")], [("timestamp", "today")], [("timestamp", .int(City.start))],
        [("timestamp", .int(City.start / 1000 - 2 * 86_400))],
        [("timestamp", .int(City.start / 1000 + 700))], [("timestamp", .double(Double(City.start / 1000) + 0.5))], [("latitude", 999)],
        [("longitude", -181)], [("latitude", .null)], [("x", 1)], [("policeArrived", true)], [("falseAlarm", true)],
        [("description", .string(String(repeating: "d", count: 501)))], [("description", 5)],
    ] as [[(Key, Node)]]) func post_isRefused_withAWrongField(_ changes: [(Key, Node)]) throws {
        var city = try City()
        #expect(try !city.sets("danae", "/posts/p2", city.post(changes)))
        #expect(try city.sets("danae", "/posts/p2", city.post([("description", .string(String(repeating: "d", count: 500)))])))
    }

    // Rows 21 to 23 and 42.
    @Test func post_isChangedByItsAuthor_inThreeFieldsOnly() throws {
        var city = try City()
        try city.befriend("danae", "ada")
        try city.befriend("danae", "andreas")
        #expect(try city.danger("p1", city.post(), to: ["ada", "andreas"]))
        #expect(try city.danger("p2", city.post(), to: ["ada", "andreas"]))
        // 21
        #expect(try !city.sets("mallory", "/posts/p1/description", "x"))
        #expect(try !city.sets("mallory", "/posts/p1/policeArrived", true))
        #expect(try !city.sets("mallory", "/posts/p1", city.post([("user", "mallory")])))
        #expect(try !city.sets("mallory", "/posts/p1", .null))
        // 22
        #expect(try city.sets("danae", "/posts/p1/policeArrived", true))
        #expect(try !city.sets("danae", "/posts/p1/policeArrived", false))
        #expect(try !city.sets("danae", "/posts/p1/latitude", 38))
        #expect(try !city.sets("danae", "/posts/p1", .null))
        #expect(try !city.sets("danae", "/posts/p1/falseAlarm", false))
        #expect(try city.sets("danae", "/posts/p1/falseAlarm", true))
        #expect(try !city.sets("danae", "/posts/p1/falseAlarm", .null))
        // 23
        #expect(try !city.sets("ada", "/timeline/andreas", .null))
        #expect(try !city.sets("ada", "/timeline/andreas/p2", .null))
        #expect(try city.sets("ada", "/timeline/ada/p2", .null))
        #expect(try city.sets("danae", "/timeline/andreas/p2", .null))
        #expect(try city.sets("ada", "/timeline/ada", .null))
        #expect(try !city.sets("ada", "/timeline/ada", ["q": city.post()]))
        #expect(try !city.sets("danae", "/users-posts/danae/p2", .null))
        // 42: the moderator removes it; then the copy may be removed.
        #expect(try city.sets("nikos", "/posts/p2", .null))
        #expect(try city.sets("danae", "/users-posts/danae/p2", .null))
    }

    private static func walk(_ city: City) -> [(Key, Node)] {
        [
            ("current", ["latitude": 37.9553, "longitude": 23.7021]), ("destination", ["latitude": 37.9674, "longitude": 23.7113]),
            ("startedAt", .int(city.now)), ("dueAt", .int(city.now + 1_200_000)), ("minutes", 20), ("status", "active"), ("online", true),
        ]
    }

    // Rows 29 to 33, 36 and 38.
    @Test func follow_isWrittenByTheWalker_andSeenByItsFollower() throws {
        var city = try City()
        try city.befriend("danae", "andreas")
        try city.befriend("danae", "ada")
        let place = "/users-follow/andreas/danae"
        // 29
        #expect(try !city.sets("danae", "/users-follow/mallory/danae", .object(Self.walk(city))))
        #expect(try city.sets("danae", place, .object(Self.walk(city))))
        // 30: old ticks and new ones.
        for (latitude, longitude) in [(37.95728, 23.70381), (37.9603, 23.7063), (37.96519, 23.71065)] {
            #expect(try city.sets("danae", place + "/current", ["latitude": .double(latitude), "longitude": .double(longitude)]))
        }
        city.now += 3000
        let fix: Node = [
            "latitude": 37.96, "longitude": 23.71, "at": .int(city.now), "acc": 5, "spd": 1.4, "hdg": 90, "batt": 0.8,
        ]
        #expect(try city.sets("danae", place + "/current", fix))
        // 31
        for stranger in ["mallory", "eleni", "ada"] {
            #expect(try !city.reads(stranger, "/users-follow/andreas") && !city.reads(stranger, place + "/current"))
        }
        #expect(try city.reads("danae", place) && city.reads("danae", place + "/current"))
        #expect(try city.reads("andreas", "/users-follow/andreas") && !city.reads("danae", "/users-follow/andreas"))
        // 32
        #expect(try !city.sets("danae", place + "/current", ["latitude": "x", "longitude": 23.7]))
        #expect(try !city.sets("danae", place + "/current", ["latitude": 37.9]))
        #expect(try !city.sets("danae", "/users-follow/mallory/danae/current", ["latitude": 37.9, "longitude": 23.7]))
        #expect(try !city.sets("danae", place + "/destination", ["latitude": 37.9, "longitude": 23.7]))
        #expect(try !city.sets("danae", place + "/destination", .null))
        #expect(try !city.sets("danae", place + "/status", "overdue"))
        #expect(try !city.sets("danae", place + "/current/at", 5))
        #expect(try !city.sets("danae", place + "/current/acc", 10_001))
        #expect(try !city.sets("danae", place + "/dueAt", .int(city.now + 43_200_001)))
        #expect(try !city.sets("danae", place, 5))
        #expect(try !city.sets("andreas", place + "/status", "danger"))
        // 33: an old client, destination first, again on each tick.
        let old = "/users-follow/ada/danae"
        for _ in 0..<2 {
            #expect(try city.sets("danae", old + "/destination", ["latitude": 37.9674, "longitude": 23.7113]))
            #expect(try city.sets("danae", old + "/current", ["latitude": 37.9553, "longitude": 23.7021]))
        }
        // 36 and 37
        #expect(try city.writes("danae", [(place + "/dueAt", .int(city.now + 600_000)), (place + "/status", "active")]))
        #expect(try city.sets("danae", place + "/status", "danger"))
        let entry: Node = ["startedAt": .int(City.start), "endedAt": .int(city.now), "result": "arrived"]
        #expect(try city.writes("danae", [(place, .null), ("/follow-log/andreas/danae/l1", entry)]))
        #expect(try !city.sets("danae", "/follow-log/andreas/danae/l1", .null))
        #expect(try !city.sets("danae", "/follow-log/andreas/danae/l2", ["startedAt": 1, "endedAt": 2, "result": "expired"]))
        #expect(try city.reads("andreas", "/follow-log/andreas/danae") && !city.reads("mallory", "/follow-log/andreas/danae"))
        // 38: after unfriending no tick is allowed, but the removal is.
        #expect(try city.sets("ada", "/users-friends/ada/danae", .null))
        #expect(try !city.sets("danae", old + "/current", ["latitude": 37.9553, "longitude": 23.7021]))
        #expect(try !city.sets("mallory", old, .null))
        #expect(try city.sets("danae", old, .null))
    }

    // Row 39's first half.
    @Test func follow_isDismissedByItsFollower() throws {
        var city = try City()
        try city.befriend("danae", "ada")
        #expect(try city.sets("danae", "/users-follow/ada/danae", .object(Self.walk(city))))
        #expect(try city.sets("ada", "/users-follow/ada/danae", .null))
        #expect(try city.sets("danae", "/users-follow/ada/danae/current", ["latitude": 37.9, "longitude": 23.7]))
    }

    // Row 40.
    @Test func blockedUser_cannotAskAgain() throws {
        var city = try City()
        let request: [(String, Node)] = [("/users-friends/mallory/ada", "requested"), ("/users-friends/ada/mallory", "pending")]
        #expect(try city.writes("mallory", request))
        #expect(try city.writes("ada", request.map { ($0.0, .null) }))
        #expect(try !city.sets("mallory", "/users-blocks/ada/mallory", .null))
        #expect(try city.sets("ada", "/users-blocks/ada/mallory", true))
        #expect(try !city.sets("ada", "/users-blocks/ada/eleni", "yes"))
        #expect(try !city.writes("mallory", request))
        #expect(try !city.sets("mallory", "/users-friends/mallory/ada", "requested"))
        #expect(try !city.reads("mallory", "/users-blocks/ada") && city.reads("ada", "/users-blocks/ada"))
    }

    // Rule 18, which no row covers.
    @Test func devicesAndLive_areTheirOwners() throws {
        var city = try City()
        let device: Node = ["kind": "ntfy", "endpoint": "https://push.example.org/t", "keys": ["p": "k"], "lang": "el"]
        #expect(try city.sets("ada", "/devices/ada/d1", device))
        #expect(try !city.sets("ada", "/devices/ada/d2", ["kind": "fax", "endpoint": "x"]))
        #expect(try !city.sets("mallory", "/devices/ada/d1", device) && !city.reads("mallory", "/devices/ada"))
        #expect(try !city.sets("ada", "/live/ada", ["latitude": 37.9]))
        #expect(try city.reads("ada", "/live/ada") && !city.reads("eleni", "/live/ada"))
    }
}
