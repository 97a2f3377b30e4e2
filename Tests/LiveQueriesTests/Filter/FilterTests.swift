import JSONTree
import TestSupport
import Testing

@testable import LiveQueries

struct FilterTests {
    private func filter(_ text: String) throws -> Filter { try Filter(JSONValue(Array(text.utf8))) }
    private func admits(_ text: String, _ child: String) throws -> Bool { try filter(text).admits(Node(json: child)) }

    @Test func filter_admitsAsTheModelSays_whateverTheValues() {
        var records = RandomRecords(16)
        for _ in 0..<20_000 {
            let conditions = records.conditions()
            let child = records.record()
            let filter = Filter(conditions)
            #expect(filter.admits(child) == FilterModel.admits(conditions, child), "\(filter.json.json) on \(child.json)")
        }
    }

    @Test func comparisons_followTheOrderOfValues_acrossTypes() throws {
        #expect(try admits(#"[["a",">",3]]"#, #"{"a":"text"}"#))
        #expect(try admits(#"[["a",">","text"]]"#, #"{"a":{"b":1}}"#))
        #expect(try admits(#"[["a","<",3]]"#, #"{"a":true}"#))
        #expect(try admits(#"[["a","==",3.0]]"#, #"{"a":3}"#))
        #expect(try !admits(#"[["a","==",9007199254740992]]"#, #"{"a":9007199254740993}"#))
        #expect(try !admits(#"[["a","==","\u00e9"]]"#, #"{"a":"e\u0301"}"#))
        #expect(try admits(#"[["a","==",3]]"#, #"{"a":{".value":3,".priority":1}}"#))
    }

    @Test func missingPaths_areNull_andComeFirst() throws {
        #expect(try admits(#"[["a","==",null]]"#, #"{"b":1}"#))
        #expect(try !admits(#"[["a","!=",null]]"#, #"{"b":1}"#))
        #expect(try admits(#"[["a","!=",3]]"#, #"{"b":1}"#))
        #expect(try admits(#"[["a","<",3]]"#, #"{"b":1}"#))
        #expect(try !admits(#"[["a","<",3],["a","!=",null]]"#, #"{"b":1}"#))
        #expect(try !admits(#"[["a",">",3]]"#, #"{"b":1}"#))
        #expect(try admits(#"[["a","in",[null,2]]]"#, #"{"b":1}"#))
        #expect(try !admits(#"[["a/b","has","c"]]"#, #"{"a":5}"#))
        #expect(!Filter.all.admits(.null))
        #expect(Filter.all.admits(1))
    }

    @Test func has_asksForAMember_whateverItsValue() throws {
        #expect(try admits(#"[["types","has","food"]]"#, #"{"types":{"food":false}}"#))
        #expect(try admits(#"[["ids","has",5]]"#, #"{"ids":{"5":"x"}}"#))
        #expect(try !admits(#"[["types","has","food"]]"#, #"{"types":"food"}"#))
        #expect(try admits(#"[[".value","has","types"]]"#, #"{"types":1}"#))
        #expect(try admits(#"[[".value","prefix","ab"]]"#, #""abc""#))
    }

    @Test func filters_areEqual_whenTheySayTheSame() throws {
        let same = [
            #"[["a","==",1],["b",">=",2],["c","in",["x","y"]]]"#,
            #"[["c","in",["y","x","y"]],["b",">=",2],["b",">",1],["a","==",1.0],["a","==",1]]"#,
            #"[["b",">=",2.0],["/a/","in",[1]],["c","in",["x","y"]],["b",">=",0]]"#,
        ]
        let filters = try same.map { try filter($0) }
        #expect(Set(filters).count == 1)
        #expect(Set(filters.map(\.json.json)).count == 1)
        #expect(try filter(#"[["b",">",2],["b",">=",2]]"#) == filter(#"[["b",">",2]]"#))
        #expect(try filter(#"[["b","<",2],["b","<=",2]]"#) == filter(#"[["b","<",2]]"#))
        #expect(try filter(#"[["a","==","1"]]"#) != filter(#"[["a","==",1]]"#))
    }

    @Test func canonicalForm_readsBack_asTheSameFilter() throws {
        var records = RandomRecords(17)
        for _ in 0..<2_000 {
            let filter = Filter(records.conditions())
            #expect(try Filter(filter.json) == filter)
            #expect(try Filter(text: filter.json.json) == filter)
        }
    }

    @Test func text_isTheSameFilter_asItsJSON() throws {
        let text = #"status == open, rating >= 3,types has food , name prefix "An, d", kind in ["a", "b"], "odd name"!=null,a/b<"3""#
        let json =
            #"[["status","==","open"],["rating",">=",3],["types","has","food"],["name","prefix","An, d"],["kind","in",["a","b"]],"#
            + #"["odd name","!=",null],["a/b","<","3"]]"#
        #expect(try Filter(text: text) == filter(json))
        #expect(try Filter(text: "  ") == .all)
        #expect(try Filter(text: " " + json) == filter(json))
    }

    @Test(arguments: [
        (#"{}"#, "where: must be a list of conditions, as [[\"status\",\"==\",\"open\"]]"),
        (#"[["a","==",1],5]"#, "where[1]: must be [path, operator, value], as [\"status\",\"==\",\"open\"]"),
        (#"[["a","==",1],["a","=",1]]"#, "where[1]: the operator \"=\" is not known; known are == != < <= > >= in has prefix"),
        (#"[[5,"==",1]]"#, "where[0]: the path must be a text"),
        (#"[["a",5,1]]"#, "where[0]: the operator must be a text"),
        (#"[["a.b","==",1]]"#, "where[0]: \"a.b\" is no path"),
        (#"[["/","==",1]]"#, "where[0]: the path is empty; \".value\" is the child's own value"),
        (#"[["a","==",{"b":1}]]"#, "where[0]: \"==\" compares with null, true, false, numbers and texts, not with {\"b\":1}"),
        (#"[["a","in",[]]]"#, "where[0]: \"in\" takes a list of at least one value"),
        (#"[["a","in",[[]]]]"#, "where[0]: \"in\" compares with null, true, false, numbers and texts, not with []"),
        (#"[["a","has","b/c"]]"#, "where[0]: \"has\" takes the name of a child, which \"b/c\" is not"),
        (#"[["a","has",true]]"#, "where[0]: \"has\" takes the name of a child, which true is not"),
        (#"[["a","prefix",1]]"#, "where[0]: \"prefix\" takes a text"),
    ])
    func fault_namesTheCondition_andWhatIsWrong(_ json: String, _ message: String) throws {
        let fault = #expect(throws: QueryFault.self) { try filter(json) }
        #expect(fault?.description == message)
        #expect(fault?.reason == .malformed)
    }

    /// Without quotes, a text that looks like another kind of value is not compared as a text.
    @Test(arguments: [
        ("rating > three", "where[0]: > takes a number, and three is none; to compare with a text, in the order of texts, put it in double quotes: > \"three\""),
        ("a == 1, at >= 2026-01-02", "where[1]: >= takes a number, and 2026-01-02 is none"),
        ("status == open and rating > 3", "where[0]: open and rating > 3 is taken for more than a value: conditions that all must hold stand between commas"),
        ("kind == a or b", "where[0]: a or b is taken for more than a value"), ("kind == a || b", "where[0]: a || b is taken"),
        ("kind == a AND b", "where[0]: a AND b is taken"), ("kind == a && b", "where[0]: a && b is taken"),
        ("a == b == c", "where[0]: b == c is taken"), ("a has b > 3", "where[0]: b > 3 is taken"),
        ("name == \"An", "where[0]: the quotes of \"An are not those of a text"),
        ("name prefix An\"", "where[0]: the quotes of An\" are not"), ("name == \"a\" b", "where[0]: the quotes of \"a\" b are not"),
        ("name == 'An'", "where[0]: texts have double quotes, as \"open\", or none: not 'An'"),
    ])
    func textWithoutQuotes_thatLooksLikeMore_isRefused_withWhatToWrite(_ text: String, _ message: String) throws {
        let fault = #expect(throws: QueryFault.self) { try Filter(text: text) }
        #expect(fault?.description.hasPrefix(message) == true, "\(fault?.description ?? "")")
        #expect(fault?.reason == .malformed)
    }

    @Test(arguments: [
        ("status == open", "open"), ("name == Ana Maria", "Ana Maria"), ("name != O'Hara", "O'Hara"), ("a == android", "android"),
        ("a == hello!", "hello!"), ("a == b=c", "b=c"), (#"a == "open and rating > 3""#, "open and rating > 3"), (#"a > "three""#, "three"),
        (#"a == the "best" one"#, #"the "best" one"#), ("a has and-or", "and-or"), ("a prefix 2026-01", "2026-01"),
    ])
    func text_isTakenAsItStands_whereItLooksLikeNothingElse(_ text: String, _ value: String) throws {
        let name = text.split(separator: " ")[1]
        #expect(try Filter(text: text) == Filter(JSONValue(Array(#"[["\#(text.split(separator: " ")[0])","\#(name)",\#(JSONValue.string(value).json)]]"#.utf8))))
    }

    @Test(arguments: ["status", "status ==", "a ~ 3", "a == 1,", "\"a == 1", "[[", "in 3"])
    func text_isRefused_whenItIsNoCondition(_ text: String) {
        #expect(throws: QueryFault.self) { try Filter(text: text) }
    }

    @Test func limits_admitWhatTheySay_andRefuseOneMore() throws {
        var limits = FilterLimits()
        (limits.conditions, limits.values, limits.bytes) = (2, 3, 10)
        func reason(_ text: String) -> QueryFault.Reason? {
            do {
                _ = try Filter(try JSONValue(Array(text.utf8)), limits: limits)
                return nil
            } catch { return (error as? QueryFault)?.reason }
        }
        #expect(reason(#"[["a","==","x"],["b","==","y"]]"#) == nil)
        #expect(reason(#"[["a","==","x"],["a","==","x"],["a","==","x"]]"#) == .tooBig)
        #expect(reason(#"[["a","in",["x","y","z"]]]"#) == nil)
        #expect(reason(#"[["a","in",["x","y","z","x"]]]"#) == .tooBig)
        #expect(reason(#"[["a","==","123456789"]]"#) == nil)
        #expect(reason(#"[["a","==","1234567890"]]"#) == .tooBig)
        #expect(throws: QueryFault.self) { try Filter(text: "a == 1234567890x", limits: limits) }
        #expect(throws: QueryFault.self) { try Filter(text: "a == 1, a == 2, a == 3", limits: limits) }
    }
}
