// The files of the page: modules loaded at the start are preloaded in index.html, and nothing comes from other origins.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path/posix';
import test from 'node:test';

const web = new URL('../../web/', import.meta.url);
const text = (name) => readFileSync(new URL(name, web), 'utf8');
/** Paths below web/, without the documents that an installed console has beside it. */
const files = (folder = '') => readdirSync(new URL(folder, web), { withFileTypes: true }).flatMap((entry) => {
  const path = `${folder}${entry.name}`;
  return entry.isDirectory() ? files(`${path}/`) : entry.isFile() ? [path] : [];
});
/** The modules that a module imports at once, not those that it loads on demand. */
const imported = (name) => [...text(name).matchAll(/^(?:import|export) [^;]*?from '(\.[^']+)';/gms)].map(([, next]) => join(name, '..', next));

/** Modules that a module imports, with those that they import; not those of other tabs, which are loaded when they are shown. */
function reached(name, known = new Set()) {
  if (known.has(name)) return known;
  known.add(name);
  for (const next of imported(name)) reached(next, known);
  return known;
}

test('firstModules_areAnnounced_soThatTheyAreLoadedAtOnce', () => {
  const announced = [...text('index.html').matchAll(/<link rel="modulepreload" href="([^"]+)">/g)].map(([, name]) => name);
  const needed = new Set([...reached('app.js'), ...reached('data/data-tab.js')]);
  needed.delete('app.js');
  assert.deepEqual(announced.sort(), [...needed].sort());
});

test('folders_doNotImportEachOtherInACircle', () => {
  const folderOf = (name) => (name.includes('/') ? name.slice(0, name.indexOf('/')) : '');
  const below = new Map(); // folder → folders that its modules import
  for (const name of files()) {
    if (!name.endsWith('.js') || !folderOf(name)) continue;
    const others = below.get(folderOf(name)) ?? new Set();
    for (const next of imported(name)) if (folderOf(next) && folderOf(next) !== folderOf(name)) others.add(folderOf(next));
    below.set(folderOf(name), others);
  }
  const reaches = (from, to, seen = new Set()) => [...below.get(from) ?? []].some((next) => next === to || (!seen.has(next) && reaches(next, to, seen.add(next))));
  assert.deepEqual([...below.keys()].filter((folder) => reaches(folder, folder)), []);
});

test('noModule_callsWhatBrowsersAndNode18Lack', () => {
  const late = /\.(toSorted|toReversed|toSpliced|isWellFormed|symmetricDifference)\(|(groupBy|fromAsync|withResolvers|isSubsetOf)\(/;
  for (const name of files()) if (name.endsWith('.js')) assert.doesNotMatch(text(name), late, name);
});

test('noFile_namesAnotherHost', () => {
  for (const name of files()) {
    if (!/\.(js|css|html|svg)$/.test(name)) continue;
    const hosts = [...text(name).matchAll(/https?:\/\/[\w.-]+/g)].map(([host]) => host).filter((host) => !/127\.0\.0\.1|localhost|www\.w3\.org/.test(host));
    assert.deepEqual(hosts, [], name);
    assert.doesNotMatch(text(name), /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(/, `${name}: nothing of data is markup`);
  }
});
