import JSONTree
import Testing
import TestSupport

@testable import SecurityRules

/// `.watch`: what lies in a circle or region, and has come there or changed, is written somewhere.
@Suite(.timeLimit(.minutes(30))) struct WatchTests {
    private static let rules = #"""
        {"rules":{
          "catalog":{"$set":{".geoIndex":{"lat":"lat","lng":"lng"}}},
          "live":{".geoIndex":{"lat":"at/lat","lng":"at/lng"}},
          "watches":{"$u":{"$w":{".watch":{"circle":{"at":"live/$u","lat":"at/lat","lng":"at/lng","radius":"data.child('r').val()"},
            "on":["catalog/admin","catalog/$u"],"if":"item.child('type').val() == data.child('type').val()",
            "to":"near/$u/$w/{item}","value":{"d":"distance","t":"item.child('title').val()","at":"now"},
            "cooldown":"newData.child('pause').val()","until":"data.child('until').val()"}}}},
          "events":{"$e":{".watch":{"circle":{"lat":"lat","lng":"lng",
            "radius":"root.child('kinds').child(data.child('kind').val()).child('fence').val()"},
            "on":"live","if":"$e != 'mute' && $item != data.child('by').val()","to":"told/{item}/{by}/+near","value":"'event'"}}},
          "zones":{"$z":{".watch":{"within":"shapes/{shape}","on":"catalog/admin","to":"in/$z/{item}","value":{"d":"distance","a":1},
            "cooldown":60}}}}}
        """#

    struct Row: Sendable, CustomTestStringConvertible {
        let old: String
        let writes: KeyValuePairs<String, String>
        let place: String
        let then: String
        init(_ old: String, _ writes: KeyValuePairs<String, String>, _ place: String, _ then: String) {
            (self.old, self.writes, self.place, self.then) = (old, writes, place, then)
        }
        var testDescription: String { "\(old) \(writes)" }
    }

    private static let here = #"{"at":{"lat":38,"lng":23.7}}"#
    private static let shop = #"{"lat":38.001,"lng":23.7,"type":"a","title":"T"}"#
    private static let found = #"{"d":111.2,"t":"T","at":7}"#
    private static let null = #"{"lat":0,"lng":0}"#
    private static let watch = #"{"r":200,"type":"a"}"#
    private static let square = #"{"south":37,"west":23,"north":39,"east":24}"#

    @Test(arguments: [
        // an item appears, moves in, or changes inside
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}}}"#, ["catalog/admin/s": shop], "near",
            #"{"u":{"w":{"s":\#(found)}}}"#),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"u":{"s":{"lat":39,"lng":23.7,"type":"a","title":"T"}}}}"#,
            ["catalog/u/s/lat": "38.001"], "near", #"{"u":{"w":{"s":\#(found)}}}"#),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"u":{"s":{"lat":38.001,"lng":23.7,"title":"T"}}}}"#,
            ["catalog/u/s/type": #""a""#], "near", #"{"u":{"w":{"s":\#(found)}}}"#),
        // a write of what is there already is no change
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["catalog/admin/s": shop, "watches/u/w": watch, "live/u": here], "near", "null"),
        // too far, of another kind, without a position, in the set of another user, gone
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":111,"type":"a"}}}}"#, ["catalog/admin/s": shop], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":200,"type":"b"}}}}"#, ["catalog/admin/s": shop], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}}}"#, ["catalog/admin/s": #"{"type":"a"}"#], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}}}"#, ["catalog/v/s": shop], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["catalog/admin/s": "null"], "near", "null"),
        // the centre appears and moves; its other fields do not matter
        Row(#"{"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#, ["live/u": here], "near",
            #"{"u":{"w":{"s":\#(found)}}}"#),
        Row(#"{"live":{"u":{"at":{"lat":39,"lng":23.7}}},"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["live/u/at/lat": "38"], "near", #"{"u":{"w":{"s":\#(found)}}}"#),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["live/u/acc": "5"], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["live": #"{"u":{"at":{"lat":38.0005,"lng":23.7}}}"#], "near/u/w/s/d", "55.6"),
        // the watching node appears, changes, moves its area, or goes
        Row(#"{"live":{"u":\#(here)},"catalog":{"admin":{"s":\#(shop)}}}"#, ["watches/u/w": watch], "near",
            #"{"u":{"w":{"s":\#(found)}}}"#),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":1,"type":"a"}}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["watches/u/w/r": "200"], "near", #"{"u":{"w":{"s":\#(found)}}}"#),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["watches/u/w": "null"], "near", "null"),
        Row("null", ["": #"{"live":{"u":\#(here)},"watches":{"u":{"w":\#(watch)}},"catalog":{"admin":{"s":\#(shop)}}}"#], "near",
            #"{"u":{"w":{"s":\#(found)}}}"#),
        // until: the last moment counts, and a text is a mistake
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":200,"type":"a","until":7}}}}"#, ["catalog/admin/s": shop], "near",
            #"{"u":{"w":{"s":\#(found)}}}"#),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":200,"type":"a","until":6}}}}"#, ["catalog/admin/s": shop], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":200,"type":"a","until":"x"}}}}"#, ["catalog/admin/s": shop], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":200,"type":"a","pause":"x"}}}}"#, ["catalog/admin/s": shop], "near", "null"),
        // radius: from above 0 to the most
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":0,"type":"a"}}}}"#,
            ["catalog/admin/s": #"{"lat":38,"lng":23.7,"type":"a"}"#], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":1000000,"type":"a"}}}}"#,
            ["catalog/admin/s": #"{"lat":38,"lng":33,"type":"a"}"#], "near/u/w/s/at", "7"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":1000000.1,"type":"a"}}}}"#,
            ["catalog/admin/s": #"{"lat":38,"lng":33,"type":"a"}"#], "near", "null"),
        Row(#"{"live":{"u":\#(here)},"watches":{"u":{"w":{"r":"200","type":"a"}}}}"#, ["catalog/admin/s": shop], "near", "null"),
        // the circle of an event, and people; the radius comes from elsewhere; a place from a value that is no key is none
        Row(#"{"kinds":{"k":{"fence":500}},"live":{"u":\#(here)}}"#,
            ["events/e": #"{"lat":38.001,"lng":23.7,"kind":"k","by":"b"}"#], "told",
            #"{"u":{"b":{"\#(GeneratedKey.of(["events", "e", "live", "u"] as [Key], "near").string)":"event"}}}"#),
        Row(#"{"kinds":{"k":{"fence":100}},"live":{"u":\#(here)},"events":{"e":{"lat":38.001,"lng":23.7,"kind":"k","by":"b"}}}"#,
            ["kinds/k/fence": "120"], "told",
            #"{"u":{"b":{"\#(GeneratedKey.of(["events", "e", "live", "u"] as [Key], "near").string)":"event"}}}"#),
        Row(#"{"kinds":{"k":{"fence":500}},"live":{"u":\#(here)}}"#,
            ["events/e": #"{"lat":38.001,"lng":23.7,"kind":"k","by":"u"}"#], "told", "null"),
        Row(#"{"kinds":{"k":{"fence":500}},"live":{"u":\#(here)}}"#, ["events/mute": #"{"lat":38.001,"lng":23.7,"kind":"k","by":"b"}"#],
            "told", "null"),
        Row(#"{"kinds":{"k":{"fence":500}},"live":{"u":\#(here)}}"#, ["events/e": #"{"lat":38.001,"lng":23.7,"kind":"k","by":"a/b"}"#],
            "told", "null"),
        // stored regions: of the node's choice, and moved
        Row(#"{"shapes":{"s":\#(square)},"catalog":{"admin":{"s":\#(shop)}}}"#, ["zones/z": #"{"shape":"s"}"#], "in",
            #"{"z":{"s":{"a":1}}}"#),
        Row(#"{"shapes":{"s":\#(square)},"zones":{"z":{"shape":"t"}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["zones/z/shape": #""s""#], "in", #"{"z":{"s":{"a":1}}}"#),
        Row(#"{"shapes":{"s":[[0,0],[0,1],[1,0]]},"zones":{"z":{"shape":"s"}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["shapes/s": "[[37,23],[39,23],[39,24],[37,24]]"], "in", #"{"z":{"s":{"a":1}}}"#),
        Row(#"{"shapes":{"s":[[0,0],[0,1],[1,0]]},"zones":{"z":{"shape":"s"}},"catalog":{"admin":{"s":\#(shop)}}}"#,
            ["shapes/s": "[[37,23],[39,23]]"], "in", "null"),
    ]) func hits_areWritten(_ row: Row) throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: row.old)
        let writes = try row.writes.map { (path: try Path(parsing: $0.key), value: try Node(json: $0.value)) }
        let (paths, new) = (writes.map(\.path), writes.after(old))
        let then = try Node(json: row.then)
        for index in [nil, WatchIndex(rules, root: old)] {
            let state = WatchState(index: index)
            let found = try rules.consequences(of: paths, old: old, new: new, by: .administrator, now: 7, watches: state)
            #expect(found.tree.node(at: try Path(parsing: row.place)) == then, "with index: \(index != nil)")
            #expect(found.writes.allSatisfy { $0.kind == .watch } && found.hits.isEmpty == (found.writes.isEmpty))
        }
    }

    /// A hit that an item had before is none, until its cooldown is over. Times are of the hit before.
    @Test func cooldown_silencesAPair() throws {
        let rules = try RuleSet(parsing: Self.rules)
        let old = try Node(json: #"{"shapes":{"s":\#(Self.square)},"zones":{"z":{"shape":"s"}}}"#)
        var new = old
        new.set(try Node(json: Self.shop), at: "catalog/admin/s")
        let pair = WatchPair(watch: "zones/z", number: 0, item: "catalog/admin/s")
        for (muted, hits) in [(nil, 1), (100_000, 1), (100_001, 0), (Int64.max, 0)] as [(Int64?, Int)] {
            let state = WatchState { $0 == pair ? muted : nil }
            let found = try rules.consequences(of: ["catalog/admin/s"], old: old, new: new, now: 100_000, watches: state)
            #expect(found.hits == (hits == 1 ? [WatchHit(pair, mutedUntil: 160_000)] : []))
        }
    }

    @Test func hitsOfACommit_areContinued_beyondTheBound() throws {
        let rules = try RuleSet(parsing: Self.rules)
        var old = try Node(json: #"{"live":{"u":{"at":{"lat":39,"lng":23.7}}},"watches":{"u":{"w":{"r":200,"type":"a"}}}}"#)
        for i in 0..<3 { old.set(try Node(json: Self.shop), at: try Path(parsing: "catalog/admin/\(i)")) }
        var limits = ConsequenceLimits()
        limits.writes = 3
        var new = old
        new.set(38, at: "live/u/at/lat")
        #expect(try rules.consequences(of: ["live/u/at/lat"], old: old, new: new, limits: limits).hits.count == 3)
        limits.writes = 2
        let found = try rules.consequences(of: ["live/u/at/lat"], old: old, new: new, now: 7, limits: limits)
        #expect(found.writes.isEmpty && found.hits.count == 3 && found.continuedHits == found.hits.map(\.pair))
        var sent: [RuleDelivery] = []
        let tree = rules.continuing([], nil, hits: found.continuedHits, old: old, in: found.tree, now: 8, sending: &sent)
        let row = try Node(json: #"{"d":111.2,"t":"T","at":8}"#)
        #expect(tree.node(at: "near/u/w").childCount == 3 && tree.node(at: "near/u/w/1") == row)
        for pair in found.continuedHits { #expect(ContinuedHits.pair(of: ContinuedHits.key(of: pair)) == pair) }
        #expect(ContinuedHits.pair(of: "a/b") == nil && ContinuedHits.pair(of: "a\nx\nb") == nil)
        limits.continuedRows = 2
        #expect(throws: ConsequenceFault(reason: .tooManyRows(2), rule: "/watches/$u/$w.watch", path: "watches/u/w")) {
            try rules.consequences(of: ["live/u/at/lat"], old: old, new: new, limits: limits)
        }
    }

    /// A scan without an index is bounded by keys; a commit that only removes is not refused for it.
    @Test func scan_isBounded_andARemovalIsNotRefused() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules":{"live":{".geoIndex":{"lat":"lat","lng":"lng"}},"w":{"$w":{".watch":{"circle":{"lat":"lat","lng":"lng",
              "radius":"data.child('off').val(50)"},"on":"live","to":"x/$w/{item}","value":1}}}}}
            """#)
        let old = try Node(json: #"{"w":{"a":{"lat":0,"lng":0,"off":"-"}},"live":{"1":\#(Self.null),"2":\#(Self.null),"3":\#(Self.null)}}"#)
        var new = old
        new.set(.null, at: "w/a/off")
        var limits = ConsequenceLimits()
        limits.keys = 4
        #expect(try rules.consequences(of: ["w/a/off"], old: old, new: new, limits: limits).writes.count == 3)
        limits.keys = 3
        #expect(try rules.consequences(of: ["w/a/off"], old: old, new: new, limits: limits).hits.isEmpty)
        new.set(0.0001, at: "w/a/lat")
        #expect(throws: ConsequenceFault(reason: .tooManyKeys(3), rule: "/w/$w.watch", path: .root)) {
            try rules.consequences(of: ["w/a"], old: old, new: new, limits: limits)
        }
    }

    private static let geo = #""e":{".geoIndex":{"lat":"a","lng":"b"}},"places":{"$u":{".geoIndex":{"lat":"a","lng":"b"}}},"#
    private static func watch(_ area: String, _ rest: String) -> String {
        #"{\#(geo)"w":{"$u":{"$k":{".watch":{\#(area),\#(rest)}}}}}"#
    }
    private static let circle = #""circle":{"lat":"x","lng":"y","radius":5}"#
    private static let form = #"A '.watch' is {"circle": {"lat": …, "lng": …, "radius": …}, "on": "events", "to": "near/$u/{item}", "#
        + #""value": …}, or has "within": "zones/$z" for the circle, with "if", "cooldown" and "until" as needed."#

    @Test(arguments: [
        (#"{".watch":{}}"#, "1:11: A '.watch' stands below the root."), (#"{"a":{".watch":5}}"#, "1:25: \(form)"),
        (#"{"a":{".watch":[]}}"#, "1:25: \(form)"), (#"{"a":{".watch":{"on":"x","to":"y/{item}","value":1}}}"#, "1:25: \(form)"),
        (#"{"a":{".watch":{"circl":5}}}"#, "1:26: A '.watch' has no 'circl'. (did you mean 'circle'?)"),
        (#"{"a":{".watch":{"circle":{"lat":"x","lng":"y"}}}}"#,
            #"1:35: A circle is {"lat": "latitude", "lng": "longitude", "radius": …}, also with "at": "live/$u", "#
                + "the place of its centre."),
        (#"{"a":{".watch":{"circle":{"lat":"x","lng":"y","radios":5}}}}"#, "1:56: A circle has no 'radios'. (did you mean 'radius'?)"),
        (#"{"a":{".watch":{"circle":{"lat":"","lng":"y","radius":5}}}}"#,
            #"1:42: '' is no path to a number, such as "position/latitude"."#),
        (#"{"a":{".watch":{"within":5}}}"#, #"1:35: 'within' is the place of a stored box or polygon, such as "zones/$z/ring"."#),
        (#"{"a":{".watch":{"within":"z","circle":{}}}}"#, "1:39: A '.watch' has a 'circle' or a 'within'."),
        (#"{"a":{".watch":{"within":"z","within":"z"}}}"#, "1:39: Duplicate key 'within'."),
        (#"{"a":{".watch":{"cooldown":true}}}"#, "1:37: 'cooldown' is a number of seconds, or an expression."),
        (#"{"a":{".watch":{"until":null}}}"#, "1:34: 'until' is a number of ms since 1970, or an expression."),
        (#"{"a":{".watch":{"on":[5]}}}"#, #"1:32: A 'on' is a place such as "comments/$post", or a list of them."#),
        (watch(circle, #""on":"f","to":"n/{item}","value":1"#),
            "1:178: 'on' names a place with a '.geoIndex', and 'f' has none. (did you mean 'e'?)"),
        (watch(circle, #""on":"place/$u","to":"n/{item}","value":1"#),
            "1:178: 'on' names a place with a '.geoIndex', and 'place/$u' has none. (did you mean 'places/$u'?)"),
        (watch(circle, #""on":["e","places"],"to":"n/{item}","value":1"#),
            "1:183: 'on' names a place with a '.geoIndex', and 'places' has none."),
        (watch(circle, #""on":"places/$v","to":"n/{item}","value":1"#),
            #"1:178: 'on' is a place of keys and of wildcards of the node's place, such as "places/$u"."#),
        (watch(circle, #""on":"places/{v}","to":"n/{item}","value":1"#),
            #"1:178: 'on' is a place of keys and of wildcards of the node's place, such as "places/$u"."#),
        (watch(circle, #""on":"e","to":"n/$k","value":1"#),
            "1:187: The place of a hit has the key of what is found, {item}, or a generated one, +: else two would be one."),
        (watch(circle, #""on":"e","to":"n/$x/{item}","value":1"#),
            "1:187: The place of a hit has keys, wildcards of the node's place, {item} and values such as {user}."),
        (watch(circle, #""on":"e","to":"n/{item}","value":null"#), "1:187: The value of a hit is something."),
        (watch(circle, #""on":"e","to":"n/{item}","value":{"a":"itme.child('x').val()"}"#),
            "1:211: Unknown variable 'itme'. (did you mean 'item'?)"),
        (watch(circle, #""on":"e","to":"n/{item}","value":1,"if":"item.child('x').val()""#),
            "1:213: Expression must evaluate to a boolean."),
        (watch(circle, #""on":"e","to":"n/{item}","value":1,"cooldown":"item.val()""#),
            "1:219: 'item' is seen in 'if' and 'value' alone: here nothing is found yet."),
        (watch(#""circle":{"lat":"x","lng":"y","radius":"now"}"#, #""on":"e","to":"n/{item}","value":1"#),
            "1:170: 'now' is not seen here: a radius changes with data alone."),
        (watch(#""circle":{"lat":"x","lng":"y","radius":"data"}"#, #""on":"e","to":"n/{item}","value":1"#),
            "1:170: Expression must evaluate to a number, boolean, string, or null."),
        (watch(#""circle":{"at":"l/*","lat":"x","lng":"y","radius":5}"#, #""on":"e","to":"n/{item}","value":1"#),
            "1:146: 'at' is a place of keys, wildcards of the node's place, and values such as {user}."),
        (watch(#""within":"l/+""#, #""on":"e","to":"n/{item}","value":1"#),
            "1:140: A generated key ('+') stands in 'to' of copies and rows, and in '.removes'."),
        (watch(circle, #""on":"e","to":"e/{item}","value":1"#),
            "1:186: A watch whose hits are written where it watches never comes to an end."),
        (watch(circle, #""on":"e","to":"w/$u/{item}","value":1"#),
            "1:186: A watch whose hits are written where it watches never comes to an end."),
        (watch(#""within":"l/$u""#, #""on":"e","to":"l/$u/{item}","value":1"#),
            "1:160: A watch whose hits are written where it watches never comes to an end."),
        (watch(#""circle":{"lat":"x","lng":"y","radius":"root.child('r').child($u).val()"}"#, #""on":"e","to":"r/$u/{item}","value":1"#),
            "1:218: A watch whose hits are written where it watches never comes to an end."),
    ]) func slip_isRefused(_ rules: String, _ message: String) {
        let found = faults("{\"rules\":\(rules)}").map { $0.description + ($0.hint.map { " (\($0))" } ?? "") }
        #expect(found == [message])
    }

    /// Most watches of a place and of a file, and most places in `on`, from both sides.
    @Test func counts_areBounded() {
        func rules(_ watches: Int, on: Int, nodes: Int = 1) -> String {
            let places = Array(repeating: "\"e\"", count: on).joined(separator: ",")
            let watch = #"{\#(Self.circle),"on":[\#(places)],"to":"n/{item}","value":1}"#
            let list = Array(repeating: watch, count: watches).joined(separator: ",")
            let all = (0..<nodes).map { #""p\#($0)":{"$k":{".watch":[\#(list)]}}"# }.joined(separator: ",")
            return #"{"rules":{\#(Self.geo)\#(all)}}"#
        }
        #expect(faults(rules(8, on: 8)).isEmpty)
        #expect(faults(rules(9, on: 1)).map(\.message) == ["A place has at most 8 watches."])
        #expect(faults(rules(1, on: 9)).map(\.message) == ["'on' names at most 8 places."])
        #expect(faults(rules(5, on: 1, nodes: 20)).isEmpty)
        #expect(faults(rules(5, on: 1, nodes: 21)).map(\.message) == ["At most 100 watches."])
    }

    @Test func rulesInForce_ignoreAWatchWithAFault() throws {
        for value in ["7", #"{"within":"z","on":"nowhere","to":"x/{item}","value":1}"#] {
            let rules = try RuleSet(inForce: #"{"rules":{"a":{".read":true,".watch":\#(value)}}}"#)
            #expect(rules.allowsRead("/a", root: .null, auth: .null, now: 0) && !rules.hasWatches && rules.unsupported.count == 1)
        }
    }

    /// A hit that is a further item, and the row's own consequences.
    @Test func hits_haveConsequences_andAreFoundThemselves() throws {
        let rules = try RuleSet(parsing: #"""
            {"rules":{
              "a":{".geoIndex":{"lat":"p","lng":"q"}},"b":{".geoIndex":{"lat":"p","lng":"q"}},
              "one":{"$w":{".watch":{"circle":{"lat":"p","lng":"q","radius":10},"on":"a","to":"b/{item}",
                "value":{"p":"item.child('p').val()","q":"item.child('q').val()"}}}},
              "two":{"$w":{".watch":{"circle":{"lat":"p","lng":"q","radius":10},"on":"b","to":"c/$w/{item}","value":"distance"}}},
              "sums":{"$w":{".counts":{"n":"count(c/$w)"}}}}}
            """#)
        let old = try Node(json: #"{"one":{"w":{"p":1,"q":1}},"two":{"w":{"p":1,"q":1}},"sums":{"w":{"n":0}}}"#)
        var new = old
        new.set(try Node(json: #"{"p":1,"q":1}"#), at: "a/x")
        for index in [nil, WatchIndex(rules, root: old)] {
            let found = try rules.consequences(of: ["a/x"], old: old, new: new, watches: WatchState(index: index))
            #expect(found.tree.node(at: "c") == (try Node(json: #"{"w":{"x":0}}"#)) && found.tree.node(at: "sums/w/n") == 1)
            #expect(found.hits.map(\.pair.item) == ["a/x", "b/x"])
        }
    }
}
