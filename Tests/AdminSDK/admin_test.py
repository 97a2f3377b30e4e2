"""The stock firebase-admin SDK, unmodified, against the hub in development mode."""

import os
import queue
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Python"))
from hub import Hub  # noqa: E402

RULES = """{
  // indexes for the ordered queries
  "rules": {
    "dinosaurs": { ".indexOn": ["height", "ratings/pos"] },
    "scores": { ".indexOn": ".value" },
    "users": { "$uid": { ".read": "auth.uid === $uid", ".write": "auth.uid === $uid" } },
    "open": { ".read": true }
  }
}"""

DINOSAURS = {
    "bruhathkayosaurus": {"height": 25, "ratings": {"pos": 1}},
    "lambeosaurus": {"height": 2.1, "ratings": {"pos": 2}},
    "linhenykus": {"height": 0.6, "ratings": {"pos": 3}},
    "pterodactyl": {"height": 0.6, "ratings": {"pos": 4}},
    "stegosaurus": {"height": 4, "ratings": {"pos": 5}},
    "triceratops": {"height": 3, "ratings": {"pos": 6}},
}


class AdminTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hub = Hub("--dev", "--memory", rules=RULES)
        os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = cls.hub.address
        import firebase_admin
        from firebase_admin import db

        cls.db = db
        url = {"databaseURL": "https://demo.firebaseio.com"}
        cls.admin = firebase_admin.initialize_app(options=url)
        cls.ana = firebase_admin.initialize_app(options={**url, "databaseAuthVariableOverride": {"uid": "ana"}}, name="ana")
        cls.nobody = firebase_admin.initialize_app(options={**url, "databaseAuthVariableOverride": None}, name="nobody")

    @classmethod
    def tearDownClass(cls):
        cls.hub.stop()

    def ref(self, path):
        return self.db.reference(path, app=self.admin)

    def test_set_get_shallow_update_delete(self):
        ref = self.ref("basics")
        ref.set({"name": "Ana", "tags": ["a", "b"], "age": 30})
        self.assertEqual(ref.get(), {"name": "Ana", "tags": ["a", "b"], "age": 30})
        self.assertEqual(ref.get(shallow=True), {"name": True, "tags": True, "age": True})
        ref.update({"age": 31, "tags/1": "c", "deep/er": True})
        self.assertEqual(ref.get(), {"name": "Ana", "tags": ["a", "c"], "age": 31, "deep": {"er": True}})
        self.ref("basics/name").delete()
        self.assertIsNone(self.ref("basics/name").get())
        self.assertIsNone(self.ref("never/there").get())

    def test_push(self):
        first, second = self.ref("list").push(), self.ref("list").push({"x": 1})
        self.assertEqual(self.ref("list").get(), {first.key: "", second.key: {"x": 1}})
        self.assertLess(first.key, second.key)

    def test_etags(self):
        ref = self.ref("etag")
        value, absent = ref.get(etag=True)
        self.assertEqual((value, absent), (None, "null_etag"))
        done, value, etag = ref.set_if_unchanged(absent, {"n": 1})
        self.assertTrue(done)
        self.assertEqual(ref.get(etag=True), ({"n": 1}, etag))
        done, value, current = ref.set_if_unchanged(absent, {"n": 2})
        self.assertEqual((done, value, current), (False, {"n": 1}, etag))
        self.assertEqual(ref.get_if_changed(etag), (False, None, None))
        changed, value, same = ref.get_if_changed("other")
        self.assertEqual((changed, value, same), (True, {"n": 1}, etag))

    def test_transactions_of_several_threads_lose_nothing(self):
        ref = self.ref("counter")

        def count():
            for _ in range(10):
                while True:
                    try:
                        ref.transaction(lambda current: (current or 0) + 1)
                        break
                    except self.db.TransactionAbortedError:
                        continue

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(ref.get(), 40)

    def test_ordered_queries(self):
        self.ref("dinosaurs").set(DINOSAURS)
        self.ref("scores").set({"a": 3, "b": 1, "c": 2})
        ref = self.ref("dinosaurs")
        by = {
            "height": ["linhenykus", "pterodactyl", "lambeosaurus", "triceratops", "stegosaurus", "bruhathkayosaurus"],
            "ratings/pos": list(DINOSAURS),
        }
        for path, names in by.items():
            self.assertEqual(list(ref.order_by_child(path).get()), names)
            self.assertEqual(list(ref.order_by_child(path).limit_to_first(2).get()), names[:2])
            self.assertEqual(list(ref.order_by_child(path).limit_to_last(2).get()), names[-2:])
        self.assertEqual(list(ref.order_by_child("height").start_at(2.5).end_at(4).get()), ["triceratops", "stegosaurus"])
        self.assertEqual(set(ref.order_by_child("height").equal_to(0.6).get()), {"linhenykus", "pterodactyl"})
        self.assertEqual(list(ref.order_by_key().start_at("p").end_at("s\uf8ff").get()), ["pterodactyl", "stegosaurus"])
        self.assertEqual(list(self.ref("scores").order_by_value().get()), ["b", "c", "a"])

    def test_errors_are_the_sdk_s_own(self):
        from firebase_admin import exceptions

        with self.assertRaises(exceptions.InvalidArgumentError) as caught:
            self.ref("open").order_by_child("missing").get()
        self.assertIn('Index not defined, add ".indexOn": "missing", for path "/open", to the rules', str(caught.exception))
        with self.assertRaises(exceptions.UnauthenticatedError) as caught:
            self.db.reference("users/bo", app=self.ana).get()
        self.assertIn("Permission denied", str(caught.exception))

    def test_auth_variable_override(self):
        from firebase_admin import exceptions

        mine = self.db.reference("users/ana", app=self.ana)
        mine.set({"n": 1})
        self.assertEqual(mine.get(), {"n": 1})
        with self.assertRaises(exceptions.UnauthenticatedError):
            self.db.reference("users/bo", app=self.ana).set(1)
        self.assertIsNone(self.db.reference("open", app=self.nobody).get())
        with self.assertRaises(exceptions.UnauthenticatedError):
            self.db.reference("users/ana", app=self.nobody).get()

    def test_listen(self):
        ref = self.ref("users/eve")
        ref.set({"a": 1})
        events = queue.Queue()
        registration = ref.listen(lambda event: events.put((event.event_type, event.path, event.data)))
        try:
            self.assertEqual(events.get(timeout=30), ("put", "/", {"a": 1}))
            child = ref.push()
            self.assertEqual(events.get(timeout=30), ("put", f"/{child.key}", ""))
            ref.update({"a": 2, "b": {"c": [1, 2]}})
            self.assertEqual(events.get(timeout=30), ("patch", "/", {"a": 2, "b": {"c": [1, 2]}}))
            ref.delete()
            self.assertEqual(events.get(timeout=30), ("put", "/", None))
        finally:
            # The SDK's own thread ends only with the next event, so the test causes one.
            closing = threading.Thread(target=registration.close)
            closing.start()
            while closing.is_alive():
                ref.push(1)
                closing.join(timeout=0.1)

    def test_priorities_and_server_values(self):
        ref = self.ref("values")
        ref.set({".value": 5, ".priority": 2})
        self.assertEqual(ref.get(), 5)
        ref.set({"t": {".sv": "timestamp"}, "n": {".sv": {"increment": 4}}})
        value = ref.get()
        self.assertEqual(value["n"], 4)
        self.assertGreater(value["t"], 1_500_000_000_000)


if __name__ == "__main__":
    unittest.main()
