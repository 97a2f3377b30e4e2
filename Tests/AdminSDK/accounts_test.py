"""The accounts side of the stock firebase-admin SDK, unmodified, against the hub in development mode. Numbers are those of the
checks of the accounts contract."""

import hashlib
import hmac
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path
from urllib.parse import parse_qs, urlparse

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Python"))
from client import Client, EventStream, Refused, ask  # noqa: E402
from hub import Hub  # noqa: E402

RULES = """{
  "rules": {
    "users": { "$uid": { ".read": "auth.uid === $uid", ".write": "auth.uid === $uid" } },
    "staff": { ".read": "auth.token.role === 'staff'", ".write": "auth.token.role === 'staff'" },
    "desk": { ".read": "auth.token.desk === 7" }
  }
}"""

PROJECT = "demo-vigla"
PASSWORD = "correct horse"


class AccountsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hub = Hub("--dev", "--memory", "--project", PROJECT, rules=RULES)
        os.environ["FIREBASE_AUTH_EMULATOR_HOST"] = cls.hub.address
        import firebase_admin
        from firebase_admin import auth

        cls.auth = auth
        cls.admin = firebase_admin.initialize_app(options={"projectId": PROJECT}, name="accounts")
        cls.client = Client(cls.hub)

    @classmethod
    def tearDownClass(cls):
        cls.hub.stop()

    def setUp(self):
        # Each test has its own accounts, named after the test.
        self.name = self.id().rsplit(".", 1)[-1].removeprefix("test_")

    def mail(self, name):
        return f"{name}-{self.name}@example.org".lower()

    def create(self, name, **more):
        return self.auth.create_user(email=self.mail(name), app=self.admin, **more)

    def signed_in(self, uid):
        """By a custom token: passwords take their time on purpose."""
        token = self.auth.create_custom_token(uid, app=self.admin).decode()
        return self.client.call("signInWithCustomToken", token=token, returnSecureToken=True)

    def administrate(self, verb, body=None, method=None):
        url = f"{self.hub.url}/identitytoolkit.googleapis.com/v1/projects/{PROJECT}/accounts{verb}"
        return ask(url, body, method, {"Authorization": "Bearer owner"})

    def emulator(self, path, body=None, method=None):
        return ask(f"{self.hub.url}/emulator/v1/projects/{PROJECT}/{path}", body, method)

    # Creating, finding, changing, deleting

    def test_check71_users_come_back_as_they_were_created(self):
        auth = self.auth
        made = auth.create_user(
            uid="uid/of@71.x", email=self.mail("ANA"), email_verified=True, password=PASSWORD, display_name="Ana", phone_number="+306900000071",
            photo_url="https://example.org/a.png", disabled=True, app=self.admin)
        self.assertEqual(made.uid, "uid/of@71.x")
        for found in (
            auth.get_user(made.uid, app=self.admin), auth.get_user_by_email(self.mail("ana"), app=self.admin),
            auth.get_user_by_phone_number("+306900000071", app=self.admin), made,
        ):
            self.assertEqual(found.uid, "uid/of@71.x")
            self.assertEqual(found.email, self.mail("ana"))
            self.assertIs(found.email_verified, True)
            self.assertEqual((found.display_name, found.photo_url), ("Ana", "https://example.org/a.png"))
            self.assertEqual(found.phone_number, "+306900000071")
            self.assertIs(found.disabled, True)
            self.assertEqual(sorted(p.provider_id for p in found.provider_data), ["password", "phone"])
            self.assertIsNone(found.custom_claims)
            self.assertIsNone(found.user_metadata.last_sign_in_timestamp)
            self.assertLess(abs(found.user_metadata.creation_timestamp / 1000 - time.time()), 60)
        nameless = auth.create_user(app=self.admin)
        self.assertRegex(nameless.uid, "^[A-Za-z0-9]{28}$")
        self.assertEqual(list(nameless.provider_data), [])

    def test_check71_users_are_changed_and_fields_cleared(self):
        auth = self.auth
        uid = self.create("bo", password=PASSWORD, display_name="Bo", photo_url="https://example.org/b.png", phone_number="+306900000072").uid
        changed = auth.update_user(
            uid, email=self.mail("robert"), email_verified=True, display_name="Robert", password="battery staple", app=self.admin)
        self.assertEqual((changed.email, changed.email_verified, changed.display_name), (self.mail("robert"), True, "Robert"))
        self.assertEqual(changed.photo_url, "https://example.org/b.png")
        self.assertEqual(self.client.sign_in(self.mail("robert"), "battery staple")["localId"], uid)
        with self.assertRaises(Refused):
            self.client.sign_in(self.mail("bo"), PASSWORD)
        cleared = auth.update_user(
            uid, display_name=auth.DELETE_ATTRIBUTE, photo_url=auth.DELETE_ATTRIBUTE, phone_number=auth.DELETE_ATTRIBUTE, app=self.admin)
        self.assertEqual((cleared.display_name, cleared.photo_url, cleared.phone_number), (None, None, None))
        self.assertEqual(cleared.email, self.mail("robert"))
        # A changed address is not the verified one.
        self.assertIs(auth.update_user(uid, email=self.mail("bob"), app=self.admin).email_verified, False)

    def test_check71_duplicates_are_refused_by_name(self):
        auth = self.auth
        first = self.create("first", phone_number="+306900000073")
        second = self.create("second")
        with self.assertRaises(auth.EmailAlreadyExistsError):
            auth.create_user(email=self.mail("FIRST"), app=self.admin)
        with self.assertRaises(auth.UidAlreadyExistsError):
            auth.create_user(uid=first.uid, app=self.admin)
        with self.assertRaises(auth.PhoneNumberAlreadyExistsError):
            auth.create_user(phone_number="+306900000073", app=self.admin)
        with self.assertRaises(auth.EmailAlreadyExistsError):
            auth.update_user(second.uid, email=self.mail("first"), app=self.admin)
        with self.assertRaises(auth.PhoneNumberAlreadyExistsError):
            auth.update_user(second.uid, phone_number="+306900000073", app=self.admin)
        with self.assertRaises(auth.UserNotFoundError):
            auth.update_user("nobody-71", display_name="x", app=self.admin)
        self.assertEqual(auth.get_user(second.uid, app=self.admin).email, self.mail("second"))

    def test_check71_deleted_users_are_gone_and_their_address_is_free(self):
        auth = self.auth
        uid = self.create("del").uid
        session = self.signed_in(uid)
        auth.delete_user(uid, app=self.admin)
        with self.assertRaises(auth.UserNotFoundError):
            auth.get_user(uid, app=self.admin)
        with self.assertRaises(auth.UserNotFoundError):
            auth.delete_user(uid, app=self.admin)
        with self.assertRaisesRegex(Refused, "^USER_NOT_FOUND$"):
            self.client.refresh(session)
        self.assertNotEqual(self.create("del").uid, uid)

    def test_check71_lists_in_pages_and_deletes_many(self):
        auth = self.auth
        made = sorted(auth.create_user(uid=f"page-{i}", app=self.admin).uid for i in range(7))
        page, listed, pages = auth.list_users(max_results=2, app=self.admin), [], 0
        while page:
            pages += 1
            self.assertLessEqual(len(page.users), 2)
            listed += [user.uid for user in page.users]
            page = page.get_next_page()
        self.assertGreater(pages, 3)
        self.assertEqual(listed, sorted(listed))
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual([uid for uid in listed if uid.startswith("page-")], made)
        self.assertEqual([user.uid for user in auth.list_users(app=self.admin).iterate_all()], listed)
        result = auth.delete_users([*made, "never-was"], app=self.admin)
        self.assertEqual((result.success_count, result.failure_count), (8, 0))
        self.assertEqual([user.uid for user in auth.list_users(app=self.admin).iterate_all()], [uid for uid in listed if uid not in made])

    def test_check71_without_force_only_disabled_users_are_deleted(self):
        on, off = self.create("on").uid, self.create("off", disabled=True).uid
        answer = self.administrate(":batchDelete", {"localIds": [on, off, "never-was"], "force": False})
        self.assertEqual([(e["index"], e["localId"]) for e in answer["errors"]], [(0, on)])
        self.assertRegex(answer["errors"][0]["message"], "^NOT_DISABLED : ")
        self.assertEqual(self.administrate(":lookup", {"localId": [on, off]})["users"][0]["localId"], on)
        for ids in ([], ["x"] * 1001):
            with self.assertRaisesRegex(Refused, "LOCAL_ID_LIST_EXCEEDS_LIMIT"):
                self.administrate(":batchDelete", {"localIds": ids, "force": True})

    # Import

    def test_check71_import_round_trip(self):
        auth = self.auth
        records = [
            auth.ImportUserRecord(
                uid="import-1", email=self.mail("one"), email_verified=True, display_name="One", photo_url="https://example.org/1.png",
                phone_number="+306900000074", disabled=False, custom_claims={"role": "staff"},
                user_metadata=auth.UserMetadata(creation_timestamp=1_600_000_000_123, last_sign_in_timestamp=1_700_000_000_456),
                provider_data=[auth.UserProvider(uid="g-71", provider_id="google.com", email=self.mail("g"), display_name="G")]),
            auth.ImportUserRecord(uid="import-2", disabled=True),
        ]
        result = auth.import_users(records, app=self.admin)
        self.assertEqual((result.success_count, result.failure_count, result.errors), (2, 0, []))
        one = auth.get_user("import-1", app=self.admin)
        self.assertEqual((one.email, one.email_verified, one.display_name), (self.mail("one"), True, "One"))
        self.assertEqual((one.photo_url, one.phone_number, one.custom_claims), ("https://example.org/1.png", "+306900000074", {"role": "staff"}))
        self.assertEqual(one.user_metadata.creation_timestamp, 1_600_000_000_123)
        self.assertEqual(one.user_metadata.last_sign_in_timestamp, 1_700_000_000_456)
        google = [p for p in one.provider_data if p.provider_id == "google.com"]
        self.assertEqual([(p.uid, p.email, p.display_name) for p in google], [("g-71", self.mail("g"), "G")])
        self.assertIs(auth.get_user("import-2", app=self.admin).disabled, True)
        found = auth.get_users([auth.ProviderIdentifier("google.com", "g-71")], app=self.admin)
        self.assertEqual([user.uid for user in found.users], ["import-1"])
        # Existing users are not overwritten: the SDK does not request it.
        again = auth.import_users([auth.ImportUserRecord(uid="import-2", display_name="Two")], app=self.admin)
        self.assertEqual((again.success_count, again.failure_count), (0, 1))
        self.assertIsNone(auth.get_user("import-2", app=self.admin).display_name)

    def test_check71_import_tells_which_users_it_did_not_take(self):
        auth = self.auth
        self.create("taken")
        records = [
            auth.ImportUserRecord(uid="bad-1", email=self.mail("taken")),
            auth.ImportUserRecord(uid="good-1", email=self.mail("good")),
            auth.ImportUserRecord(uid="bad-2", email=self.mail("good")),
        ]
        result = auth.import_users(records, app=self.admin)
        self.assertEqual((result.success_count, result.failure_count), (1, 2))
        self.assertEqual([error.index for error in result.errors], [0, 2])
        for error in result.errors:
            self.assertEqual(error.reason, "email exists in other account in database")
        self.assertEqual(auth.get_user("good-1", app=self.admin).email, self.mail("good"))
        self.assertEqual(len(auth.get_users([auth.UidIdentifier("bad-1"), auth.UidIdentifier("bad-2")], app=self.admin).users), 0)

    def import_password(self, uid, stored, salt, algorithm):
        record = self.auth.ImportUserRecord(uid=uid, email=self.mail(uid), password_hash=stored, password_salt=salt)
        result = self.auth.import_users([record], hash_alg=algorithm, app=self.admin)
        self.assertEqual([error.reason for error in result.errors], [])

    def test_imported_password_hashes_sign_in(self):
        hashes = self.auth.UserImportHash
        password, salt = "s3cret-Пароль", b"0123456789abcdef"
        raw = password.encode()
        cases = {
            "scrypt": (hashlib.scrypt(raw, salt=salt, n=1024, r=8, p=2, dklen=32), hashes.standard_scrypt(1024, 2, 8, 32)),
            "pbkdf2": (hashlib.pbkdf2_hmac("sha256", raw, salt, 10_000), hashes.pbkdf2_sha256(10_000)),
        }
        for name, (stored, algorithm) in cases.items():
            with self.subTest(name):
                self.import_password(f"{name}-in", stored, salt, algorithm)
                for wrong in ("s3cret-пароль", "", "another one"):
                    with self.assertRaises(Refused):
                        self.client.sign_in(self.mail(f"{name}-in"), wrong)
                # Twice: with the imported hash, and with the one that the first sign-in replaced it by.
                for _ in range(2):
                    self.assertEqual(self.client.sign_in(self.mail(f"{name}-in"), password)["localId"], f"{name}-in")

    def test_fast_hashes_are_refused_clearly(self):
        from firebase_admin import exceptions

        hashes = self.auth.UserImportHash
        stored = hmac.new(b"key", PASSWORD.encode(), "sha256").digest()
        for algorithm in (hashes.hmac_sha256(b"key"), hashes.md5(1), hashes.sha512(1)):
            record = self.auth.ImportUserRecord(uid="fast", email=self.mail("fast"), password_hash=stored)
            with self.assertRaises(exceptions.InvalidArgumentError) as caught:
                self.auth.import_users([record], hash_alg=algorithm, app=self.admin)
            self.assertIn("hashAlgorithm", str(caught.exception))
        with self.assertRaises(self.auth.UserNotFoundError):
            self.auth.get_user("fast", app=self.admin)

    # Roles

    def test_check72_claims_reach_a_database_rule_after_a_refresh(self):
        auth = self.auth
        uid = self.create("staff").uid
        session = self.signed_in(uid)
        with self.assertRaisesRegex(Refused, "Permission denied"):
            self.client.data("/staff/x", session, 1)
        auth.set_custom_user_claims(uid, {"role": "staff", "desk": 7}, app=self.admin)
        self.assertEqual(auth.get_user(uid, app=self.admin).custom_claims, {"role": "staff", "desk": 7})
        session = self.client.refresh(session)
        self.assertEqual(auth.verify_id_token(session["idToken"], app=self.admin)["role"], "staff")
        self.client.data("/staff/x", session, 1)
        self.assertEqual(self.client.data("/staff/x", session), 1)
        self.client.data("/desk", session)
        auth.set_custom_user_claims(uid, {}, app=self.admin)
        self.assertFalse(auth.get_user(uid, app=self.admin).custom_claims)
        with self.assertRaisesRegex(Refused, "Auth token is expired"):
            self.client.data("/staff/x", session)
        session = self.client.refresh(session)
        self.assertNotIn("role", auth.verify_id_token(session["idToken"], app=self.admin))
        with self.assertRaisesRegex(Refused, "Permission denied"):
            self.client.data("/staff/x", session)

    def test_check72_bad_claims_are_refused(self):
        # The SDK itself refuses all of them, so they are sent as by another program.
        uid = self.create("bad").uid
        cases = {
            '{"sub":"x"}': "^FORBIDDEN_CLAIM : sub$", '{"firebase":{}}': "^FORBIDDEN_CLAIM : firebase$", "[1]": "^INVALID_CLAIMS", '"x"': "^INVALID_CLAIMS",
            "{": "^INVALID_CLAIMS", json.dumps({"a": "x" * 1000}): "^CLAIMS_TOO_LARGE",
        }
        for claims, message in cases.items():
            with self.subTest(claims[:20]), self.assertRaisesRegex(Refused, message):
                self.administrate(":update", {"localId": uid, "customAttributes": claims})
        self.assertIsNone(self.auth.get_user(uid, app=self.admin).custom_claims)
        longest = json.dumps({"a": "x" * (1000 - len('{"a": ""}'))})
        self.assertEqual(len(longest), 1000)
        self.administrate(":update", {"localId": uid, "customAttributes": longest})

    def test_second_factors_are_refused(self):
        # This SDK has no API for them; others have.
        uid = self.create("factor").uid
        factor = {"phoneInfo": "+306900000079", "displayName": "phone"}
        for path, body in [
            (":update", {"localId": uid, "mfa": {"enrollments": [factor]}}), ("", {"localId": "factor-1", "mfaInfo": [factor]}),
        ]:
            with self.subTest(path), self.assertRaisesRegex(Refused, "^OPERATION_NOT_ALLOWED : There are no second factors"):
                self.administrate(path, body)
        answer = self.administrate(":batchCreate", {"users": [{"localId": "factor-1", "mfaInfo": [factor]}, {"localId": "factor-2", "mfaInfo": []}]})
        self.assertEqual([fault["index"] for fault in answer["error"]], [0])
        found = self.auth.get_users([self.auth.UidIdentifier("factor-1"), self.auth.UidIdentifier("factor-2")], app=self.admin)
        self.assertEqual([user.uid for user in found.users], ["factor-2"])

    # Live effects

    def test_check73_revocation_ends_sessions_and_live_connections(self):
        auth = self.auth
        uid = self.create("rev").uid
        session, other = self.signed_in(uid), self.signed_in(uid)
        with EventStream(self.hub, f"/users/{uid}", session) as stream:
            self.assertEqual(stream.next(), ("put", {"path": "/", "data": None}))
            self.client.data(f"/users/{uid}", other, 1)
            self.assertEqual(stream.next(), ("put", {"path": "/", "data": 1}))
            auth.revoke_refresh_tokens(uid, app=self.admin)
            self.assertEqual(stream.next()[0], "auth_revoked")
            self.assertIsNone(stream.next())
        for ended in (session, other):
            with self.assertRaisesRegex(Refused, "^TOKEN_EXPIRED$"):
                self.client.refresh(ended)
            with self.assertRaisesRegex(Refused, "^TOKEN_EXPIRED$"):
                self.client.call("lookup", idToken=ended["idToken"])
            with self.assertRaises(Refused) as caught:
                self.client.data(f"/users/{uid}", ended)
            self.assertEqual(caught.exception.status, 401)
        new = self.signed_in(uid)
        self.client.data(f"/users/{uid}", new, 2)
        self.assertEqual(self.client.call("lookup", idToken=new["idToken"])["users"][0]["localId"], uid)

    def test_check73_the_sdk_itself_sees_the_revocation(self):
        auth = self.auth
        uid = self.create("sdk").uid
        token = self.signed_in(uid)["idToken"]
        self.assertEqual(auth.verify_id_token(token, check_revoked=True, app=self.admin)["uid"], uid)

        def is_revoked():
            auth.revoke_refresh_tokens(uid, app=self.admin)
            try:
                auth.verify_id_token(token, check_revoked=True, app=self.admin)
            except auth.RevokedIdTokenError:
                return True

        # The SDK compares whole seconds: a token of the same second counts as later.
        end = time.monotonic() + 30
        while not is_revoked():
            self.assertLess(time.monotonic(), end)

    def test_check74_disabled_users_are_out_until_they_are_enabled(self):
        auth = self.auth
        uid = self.create("dis", password=PASSWORD).uid
        session = self.signed_in(uid)
        with EventStream(self.hub, f"/users/{uid}", session) as stream:
            self.assertEqual(stream.next()[0], "put")
            auth.update_user(uid, disabled=True, app=self.admin)
            self.assertEqual(stream.next()[0], "auth_revoked")
        with self.assertRaisesRegex(Refused, "^USER_DISABLED$"):
            self.client.sign_in(self.mail("dis"), PASSWORD)
        for refused in (self.client.refresh, lambda _: self.signed_in(uid)):
            with self.assertRaisesRegex(Refused, "^USER_DISABLED$"):
                refused(session)
        with self.assertRaises(auth.UserDisabledError):
            auth.verify_id_token(session["idToken"], check_revoked=True, app=self.admin)
        auth.update_user(uid, disabled=False, app=self.admin)
        self.assertEqual(self.client.sign_in(self.mail("dis"), PASSWORD)["localId"], uid)

    def test_deletion_ends_live_connections(self):
        uid = self.create("gone").uid
        with EventStream(self.hub, f"/users/{uid}", self.signed_in(uid)) as stream:
            self.assertEqual(stream.next()[0], "put")
            self.auth.delete_user(uid, app=self.admin)
            self.assertEqual(stream.next()[0], "auth_revoked")

    # Lookups

    def test_check75_unknown_ids_are_not_found_and_no_error(self):
        auth = self.auth
        uid = self.create("known").uid
        result = auth.get_users(
            [auth.UidIdentifier(uid), auth.UidIdentifier("nobody"), auth.EmailIdentifier(self.mail("known")), auth.EmailIdentifier("no@example.org"),
             auth.PhoneIdentifier("+306900000099"), auth.ProviderIdentifier("google.com", "nobody")], app=self.admin)
        self.assertEqual([user.uid for user in result.users], [uid])
        self.assertEqual(len(result.not_found), 4)
        answer = self.administrate(":lookup", {"localId": ["nobody"]})
        self.assertNotIn("users", answer)
        self.assertEqual(answer["kind"], "identitytoolkit#GetAccountInfoResponse")
        with self.assertRaises(auth.UserNotFoundError):
            auth.get_user_by_email("no@example.org", app=self.admin)

    # Custom tokens

    def test_check76_custom_token_signs_in_under_its_uid_with_its_claims(self):
        auth = self.auth
        token = auth.create_custom_token("custom/76", {"role": "staff"}, app=self.admin).decode()
        session = self.client.call("signInWithCustomToken", token=token, returnSecureToken=True)
        self.assertIs(session["isNewUser"], True)
        claims = auth.verify_id_token(session["idToken"], app=self.admin)
        self.assertEqual((claims["uid"], claims["role"], claims["firebase"]["sign_in_provider"]), ("custom/76", "staff", "custom"))
        self.client.data("/staff/custom", session, 1)
        refreshed = self.client.refresh(session)
        self.assertEqual(auth.verify_id_token(refreshed["idToken"], app=self.admin)["role"], "staff")
        plain = self.client.call("signInWithCustomToken", token=auth.create_custom_token("custom/76", app=self.admin).decode())
        self.assertIsNot(plain.get("isNewUser"), True)
        self.assertNotIn("role", auth.verify_id_token(self.client.refresh(plain)["idToken"], app=self.admin))
        self.assertEqual(auth.get_user("custom/76", app=self.admin).custom_claims, None)
        auth.update_user("custom/76", disabled=True, app=self.admin)
        with self.assertRaisesRegex(Refused, "^USER_DISABLED$"):
            self.client.call("signInWithCustomToken", token=token)

    def test_session_cookie_is_verified_by_the_sdk(self):
        auth = self.auth
        uid = self.create("cookie").uid
        cookie = auth.create_session_cookie(self.signed_in(uid)["idToken"], 3600, app=self.admin)
        self.assertEqual(auth.verify_session_cookie(cookie, check_revoked=True, app=self.admin)["uid"], uid)
        with self.assertRaises(auth.InvalidIdTokenError):
            auth.verify_id_token(cookie, app=self.admin)
        with self.assertRaises(Refused) as caught:
            self.client.data(f"/users/{uid}", {"idToken": cookie})
        self.assertEqual(caught.exception.status, 401)

    # Links

    def test_check54_links_are_handed_to_administrators_and_work(self):
        auth = self.auth
        uid = self.create("link").uid
        settings = auth.ActionCodeSettings(url="http://localhost/after")
        verify = parse_qs(urlparse(auth.generate_email_verification_link(self.mail("link"), settings, app=self.admin)).query)
        self.assertEqual((verify["mode"], verify["continueUrl"]), (["verifyEmail"], ["http://localhost/after"]))
        self.client.call("update", oobCode=verify["oobCode"][0])
        self.assertIs(auth.get_user(uid, app=self.admin).email_verified, True)
        reset = parse_qs(urlparse(auth.generate_password_reset_link(self.mail("link"), app=self.admin)).query)
        self.assertEqual(reset["mode"], ["resetPassword"])
        self.client.call("resetPassword", oobCode=reset["oobCode"][0], newPassword="battery staple")
        self.assertEqual(self.client.sign_in(self.mail("link"), "battery staple")["localId"], uid)
        sign_in = parse_qs(urlparse(auth.generate_sign_in_with_email_link(self.mail("link"), settings, app=self.admin)).query)
        self.assertEqual(sign_in["mode"], ["signIn"])
        self.assertTrue(sign_in["apiKey"][0])
        answer = self.client.call("signInWithEmailLink", email=self.mail("link"), oobCode=sign_in["oobCode"][0])
        self.assertEqual(answer["localId"], uid)
        with self.assertRaises(auth.EmailNotFoundError):
            auth.generate_password_reset_link(self.mail("nobody"), app=self.admin)
        with self.assertRaisesRegex(Refused, "^INSUFFICIENT_PERMISSION"):
            self.client.call("sendOobCode", requestType="PASSWORD_RESET", email=self.mail("link"), returnOobLink=True)

    # Endpoints for test suites

    def test_check77_codes_that_are_pending_are_listed(self):
        session = self.signed_in(self.create("oob").uid)
        mine = lambda: [code for code in self.emulator("oobCodes")["oobCodes"] if code["email"] == self.mail("oob")]  # noqa: E731
        self.client.call("sendOobCode", requestType="VERIFY_EMAIL", idToken=session["idToken"])
        self.client.call("sendOobCode", requestType="PASSWORD_RESET", email=self.mail("oob"))
        verify, reset = mine()
        self.assertEqual((verify["requestType"], reset["requestType"]), ("VERIFY_EMAIL", "PASSWORD_RESET"))
        for code in (verify, reset):
            self.assertEqual(parse_qs(urlparse(code["oobLink"]).query)["oobCode"], [code["oobCode"]])
        self.client.call("update", oobCode=verify["oobCode"])
        self.assertEqual(mine(), [reset])

    def test_check5_nothing_of_it_exists_outside_development(self):
        with tempfile.TemporaryDirectory() as folder:
            hub = Hub("--data", folder, "--project", PROJECT, rules=RULES)
            try:
                for path, method in (("accounts", "DELETE"), ("oobCodes", "GET"), ("config", "GET"), ("config", "PATCH"), ("verificationCodes", "GET")):
                    with self.subTest(path), self.assertRaises(Refused) as caught:
                        ask(f"{hub.url}/emulator/v1/projects/{PROJECT}/{path}", None if method == "GET" else {}, method)
                    self.assertEqual(caught.exception.status, 404)
                url = f"{hub.url}/identitytoolkit.googleapis.com/v1/projects/{PROJECT}/accounts:lookup"
                with self.assertRaises(Refused) as caught:
                    ask(url, {"localId": ["x"]}, headers={"Authorization": "Bearer owner"})
                self.assertEqual((caught.exception.status, caught.exception.body["error"]["status"]), (401, "UNAUTHENTICATED"))
            finally:
                hub.stop()


class WholeHubTest(unittest.TestCase):
    """What concerns every account has a hub of its own."""

    def test_check77_accounts_are_emptied_config_is_merged(self):
        hub = Hub("--dev", "--memory", "--project", PROJECT)
        try:
            client, base = Client(hub), f"{hub.url}/emulator/v1/projects/{PROJECT}"
            session = client.call("signUp", email="ana@example.org", password=PASSWORD)
            client.call("sendOobCode", requestType="PASSWORD_RESET", email="ana@example.org")
            before = ask(f"{base}/oobCodes")
            self.assertEqual(len(before["oobCodes"]), 1)
            self.assertEqual(ask(f"{base}/accounts", {}, "DELETE"), {})
            with self.assertRaisesRegex(Refused, "^USER_NOT_FOUND$"):
                client.call("lookup", idToken=session["idToken"])
            self.assertEqual(ask(f"{base}/oobCodes"), before)
            self.assertNotEqual(client.call("signUp", email="ana@example.org", password=PASSWORD)["localId"], session["localId"])
            first = ask(f"{base}/config")
            self.assertEqual(set(first), {"signIn", "emailPrivacyConfig"})
            changed = ask(f"{base}/config", {"emailPrivacyConfig": {"enableImprovedEmailPrivacy": False}}, "PATCH")
            self.assertEqual(changed, {**first, "emailPrivacyConfig": {"enableImprovedEmailPrivacy": False}})
            with self.assertRaisesRegex(Refused, "^EMAIL_NOT_FOUND$"):
                client.sign_in("nobody@example.org", PASSWORD)
            self.assertEqual(ask(f"{base}/config", {"emailPrivacyConfig": {"enableImprovedEmailPrivacy": True}}, "PATCH")["signIn"], first["signIn"])
            with self.assertRaisesRegex(Refused, "^INVALID_LOGIN_CREDENTIALS$"):
                client.sign_in("nobody@example.org", PASSWORD)
        finally:
            hub.stop()


if __name__ == "__main__":
    unittest.main()
