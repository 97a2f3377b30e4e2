import assert from 'node:assert/strict';
import test from 'node:test';
import { accountFault } from '../../web/client/credentials.js';
import { authOf, claimsFault, matches, shownClaims, titleOf, userOf } from '../../web/users/accounts.js';

const entry = {
  localId: 'u1', email: 'ana@example.org', emailVerified: true, displayName: 'Ana', customAttributes: '{"role":"staff"}', createdAt: '1790000000000',
  lastLoginAt: '1790000000001', providerUserInfo: [{ providerId: 'password' }],
};

test('user_hasWhatThePageShows', () => {
  const user = userOf(entry, 'ana.k');
  assert.deepEqual(user, {
    id: 'u1', email: 'ana@example.org', name: 'Ana', alias: 'ana.k', isVerified: true, isDisabled: false, claims: '{"role":"staff"}', createdAt: 1790000000000,
    lastSignInAt: 1790000000001, ways: ['password'], hasPassword: true,
  });
  const guest = userOf({ localId: 'abcdefghijkl' });
  assert.equal(titleOf(guest), 'Guest abcdefgh');
  assert.equal(guest.createdAt, null);
  assert.equal(titleOf(user), 'Ana');
  assert.equal(titleOf({ ...user, name: '' }), 'ana@example.org');
});

test('search_findsPartsOfNames_whateverTheirCase', () => {
  const user = userOf(entry, 'ana.k');
  for (const text of ['', 'ANA', 'example', 'u1', '.k', ' ana ']) assert.ok(matches(user, text), text);
  assert.ok(!matches(user, 'bob'));
});

test('claims_areObjects', () => {
  assert.equal(claimsFault(''), null);
  assert.equal(claimsFault('{"a":1}'), null);
  for (const text of ['[]', '5', 'null', '"x"']) assert.match(claimsFault(text), /JSON object/);
  assert.match(claimsFault('{'), /not JSON/);
  assert.equal(shownClaims('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(shownClaims('{'), '{');
  assert.equal(shownClaims(''), '');
});

test('auth_isWhatRulesSee', () => {
  assert.deepEqual(authOf(entry), {
    uid: 'u1', provider: 'password',
    token: { sub: 'u1', user_id: 'u1', role: 'staff', firebase: { sign_in_provider: 'password' }, email: 'ana@example.org', email_verified: true, name: 'Ana' },
  });
  assert.equal(authOf({ localId: 'x' }).provider, 'anonymous');
  assert.equal(authOf({ localId: 'x', customAttributes: '{' }, 'custom').token.firebase.sign_in_provider, 'custom');
});

test('codes_becomeSentences', () => {
  assert.equal(accountFault('EMAIL_EXISTS'), 'Another account has this address.');
  assert.equal(accountFault('SOMETHING : It is so'), 'It is so');
  assert.equal(accountFault('SOMETHING'), 'SOMETHING');
});
