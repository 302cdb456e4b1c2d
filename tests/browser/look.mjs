// Looks at every page of the dashboard in a real browser: light and dark, wide and 390 px.
// Reads its orders as JSON from PAR_LOOK; prints what is wrong, one line each, and ends with 1 if anything is.
import { chromium } from 'playwright-core';
import { readFileSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const { base, viewer, operator, pages, entry, approve, risky, link, denied, hidden, shots } = JSON.parse(process.env.PAR_LOOK);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const wrong = [];
let checked = 0;
const say = (where, what) => wrong.push(`${where}: ${what}`);
const expect = (where, holds, what) => { checked += 1; if (!holds) say(where, what); };
if (shots) mkdirSync(shots, { recursive: true });

const browser = await chromium.launch({
  executablePath: process.env.PAR_CHROMIUM,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

/** A page whose errors and foreign requests are counted. */
async function open(options, where) {
  const context = await browser.newContext({ baseURL: base, ...options });
  if (options.javaScriptEnabled !== false) await context.addInitScript({ content: axe });
  const page = await context.newPage();
  const at = () => `${where} ${page.url().slice(base.length)}`;
  page.on('pageerror', (error) => say(at(), `script error: ${error}`));
  page.on('console', (line) => { if (['error', 'warning'].includes(line.type())) say(at(), `console: ${line.text()}`); });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${base}/`) && !url.startsWith('data:')) say(at(), `request to ${url}`);
  });
  page.on('dialog', (dialog) => { say(at(), `a dialog: ${dialog.message()}`); dialog.dismiss(); });
  return page;
}

async function logIn(page) {
  await page.goto('/ui/login');
  await page.fill('#key', viewer);
  await page.click('button[type=submit]');
  await page.waitForURL(/\/ui\/(runs|approvals)?$/);
}

async function look(page, name, path, where) {
  await page.goto(path, { waitUntil: 'load' });
  await page.waitForTimeout(80);
  const found = await page.evaluate((tags) => window.axe.run(document, { runOnly: { type: 'tag', values: tags } }), TAGS);
  for (const rule of found.violations) {
    const nodes = rule.nodes.slice(0, 3).map((node) => `${node.target} ${node.html.slice(0, 120)}: ${node.any?.[0]?.message ?? ''}`);
    say(`${where} ${path}`, `axe ${rule.id}: ${rule.help} (${nodes.join(' | ')})`);
  }
  expect(`${where} ${path}`, found.passes.length > 5, 'axe looked at nothing');
  const [is, may] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  expect(`${where} ${path}`, is <= may, `scrolls sideways: ${is} in ${may}`);
  if (shots) await page.screenshot({ path: `${shots}/${name}-${where}.png`, fullPage: true });
}

// First: the link holds for a minute.
if (link) await byLink();

for (const colorScheme of ['light', 'dark']) {
  for (const width of [1280, 390]) {
    const where = `${colorScheme}-${width}`;
    const page = await open({ colorScheme, viewport: { width, height: 860 } }, where);
    await look(page, 'login', '/ui/login', where);
    await logIn(page);
    for (const [name, path] of pages) {
      await look(page, name, path, where);
      const shown = await page.content();
      for (const words of hidden ?? []) expect(`${where} ${path}`, !shown.includes(words), `shows what is another's: ${words}`);
    }
    await page.context().close();
  }
}

/** A yes, given on the page. */
async function grant() {
  const page = await open({ viewport: { width: 1280, height: 860 } }, 'approve');
  await logIn(page);
  await portThief(page);
  await page.goto(approve);
  expect('approve', await page.locator('text=Approve once').isEnabled(), 'the tab that logged in may not answer');
  expect('approve', /^in \d+ min$/.test(await page.textContent('time[data-until]')), 'tells no time that is left');
  await page.fill('#reason', 'looked at it');
  await page.click('text=Approve once');
  await page.waitForSelector('.notice:has-text("looked at it")', { timeout: 5000 }).catch(() => say('approve', 'the answer is not shown'));
  expect('approve', (await page.locator('text=Approve once').count()) === 0, 'it can be answered twice');
}

/**
 * Another server on the same address: it gets the cookie, and with it the token of every form, but not what the tab
 * that logged in has kept. Nor has another tab.
 */
async function portThief(page) {
  let stolen = '';
  const thief = createServer((request, response) => { stolen ||= request.headers.cookie ?? ''; response.end('<h1>hello</h1>'); });
  await new Promise((ready) => thief.listen(0, '127.0.0.1', ready));
  const other = await page.context().newPage();
  await other.goto(`http://127.0.0.1:${thief.address().port}/`);
  expect('thief', stolen.includes('par_login='), 'the browser kept the cookie to one port: this test shows nothing');
  expect('thief', await other.evaluate(() => sessionStorage.getItem('par-proof')) === null, 'another port sees the proof');
  const headers = { cookie: stolen, 'sec-fetch-site': 'same-origin', accept: 'text/html' };
  const shown = await (await fetch(base + approve, { headers })).text();
  const field = (name) => shown.match(new RegExp(`name="${name}" value="([^"]*)"`))?.[1] ?? '';
  for (const answer of ['grant', 'refuse']) {
    const body = new URLSearchParams({ answer, token: field('token'), call_hash: field('call_hash'), proof: field('proof') });
    const got = await fetch(base + approve, { method: 'POST', redirect: 'manual', headers, body });
    expect('thief', field('token') !== '' && got.status === 403, `${answer} with the cookie alone: ${got.status}`);
  }
  await other.goto(base + approve);
  expect('thief', await other.locator('text=Approve once').isDisabled(), 'another tab may answer');
  expect('thief', await other.locator('[data-unproven]').isVisible(), 'another tab is not told why it may not');
  await other.close();
  thief.close();
}

/** What one does on the pages of a viewer. */
async function act() {
  // The browser makes the leaf's hash itself.
  const page = await open({ viewport: { width: 1280, height: 500 } }, 'acts');
  await logIn(page);
  await page.goto(`/ui/audit/${entry}`);
  await page.waitForSelector('#verdict.good', { timeout: 5000 }).catch(() => say('entry', 'the leaf was not verified'));
  expect('entry', (await page.textContent('#verdict')).includes('verified in this browser'), 'does not say so');

  // Keys.
  await page.goto('/ui/');
  await page.keyboard.press('g');
  await page.keyboard.press('r');
  await page.waitForURL('**/ui/runs').catch(() => say('keys', '`g r` leads nowhere'));
  await page.keyboard.press('?');
  expect('keys', await page.locator('#keys').isVisible(), '`?` shows nothing');
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  expect('keys', await page.evaluate(() => document.activeElement.matches('[data-search]')), '`/` finds no search');
  await page.evaluate(() => document.activeElement.blur());
  if (operator) {
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/ui/runs/run_*').catch(() => say('keys', '`j`, `k` and Enter open nothing'));

    // The live tail: new entries come, reading further up stays where it is, and the way back is offered.
    const ask = () => fetch(`${base}/agent/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/json' },
      body: JSON.stringify({ message: 'how is this server doing?' }),
    });
    await page.goto('/ui/audit?follow=1');
    await page.waitForSelector('.live.on', { timeout: 5000 }).catch(() => say('tail', 'is not live'));
    const rows = () => page.locator('#rows tr').count();
    const before = await rows();
    await ask();
    await page.waitForFunction((count) => document.querySelectorAll('#rows tr').length > count + 3, before, { timeout: 5000 })
      .catch(() => say('tail', 'no new rows came'));
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.waitForTimeout(100);
    await ask();
    await page.waitForSelector('.jump:visible', { timeout: 5000 }).catch(() => say('tail', 'no way back is offered'));
    expect('tail', (await page.evaluate(() => window.scrollY)) === 0, 'moved while one was reading further up');
    await page.click('.jump');
    expect('tail', !(await page.locator('.jump').isVisible()), 'the way back stays');
    const seqs = await page.locator('#rows tr td:first-child').allTextContents();
    expect('tail', new Set(seqs).size === seqs.length, 'a row is there twice');
  }
  await page.context().close();
}

/** What this login may not see is refused, or is not there. */
async function refused() {
  const page = await open({ viewport: { width: 1280, height: 860 } }, 'refused');
  await logIn(page);
  const cookies = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
  for (const path of denied) {
    const got = await fetch(base + path, { redirect: 'manual', headers: { cookie: cookies, accept: 'text/html' } });
    expect('refused', [403, 404].includes(got.status), `${path}: ${got.status}`);
    const shown = await got.text();
    for (const words of hidden ?? []) expect('refused', !shown.includes(words), `${path} shows ${words}`);
  }
  for (const place of await page.locator('header nav a').evaluateAll((links) => links.map((a) => a.getAttribute('href')))) {
    expect('refused', !denied.includes(place), `the navigation offers ${place}`);
  }
  await page.context().close();
}

/** A call of high risk is asked about twice, whether by a key or by the button. */
async function twice() {
  const page = await open({ viewport: { width: 390, height: 860 } }, 'twice');
  await logIn(page);
  await page.goto(risky);
  for (const begin of [() => page.keyboard.press('a'), () => page.click('text=Approve once')]) {
    await begin();
    expect('twice', await page.locator('#second').isVisible(), 'a call of high risk is approved at once');
    await page.click('#second >> text=Back');
    expect('twice', !(await page.locator('#second').isVisible()), 'there is no way back');
  }
  expect('twice', await page.locator('text=Approve once').isEnabled(), 'it was answered');
  await page.keyboard.press('a');
  await page.click('[data-sure]');
  await page.waitForSelector('.notice:has-text("by")', { timeout: 5000 }).catch(() => say('twice', 'the second look approves nothing'));
  await page.context().close();
}

/** The link of `par login`: the code leaves the address, and the login answers with a cookie of its own. */
async function byLink() {
  const page = await open({ viewport: { width: 1280, height: 860 } }, 'link');
  await page.goto(link);
  expect('link', !page.url().includes('parlink_'), 'the code stays in the address');
  expect('link', (await page.inputValue('#key')).startsWith('parlink_'), 'the code is not in the form');
  await page.click('button[type=submit]');
  await page.waitForURL('**/ui/approvals').catch(() => say('link', `leads to ${page.url()}`));
  const names = (await page.context().cookies()).map(({ name }) => name);
  expect('link', names.includes('par_answer') && !names.includes('par_login'), `its cookies are ${names}`);
  await page.click('text=Log out');
  await page.waitForURL('**/ui/login');
  await page.context().close();
}

if (denied) await refused();
if (risky) await twice();
if (approve) await grant(); else if (entry) await act();

// Reading works without the script.
const plain = await open({ javaScriptEnabled: false }, 'no-script');
await logIn(plain);
for (const [, path] of pages) {
  await plain.goto(path);
  expect('no-script', (await plain.locator('main h1').count()) === 1, `${path} has no heading`);
}
await plain.click('text=Log out');
await plain.waitForURL('**/ui/login');

await browser.close();
for (const line of wrong) console.log(line);
console.log(`${checked} checks, ${wrong.length} wrong`);
process.exitCode = wrong.length > 0 ? 1 : 0;
