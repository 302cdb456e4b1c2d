// The dashboard's script: keyboard, copying, the proof of a tab, the hash computed in the browser,
// the live tail. Every page is readable without it. Text becomes nodes only through `textContent`
// and `append`; the content policy refuses anything else.
'use strict';

const $ = (selector, from = document) => from.querySelector(selector);

/** An element with attributes and children; a string child is text. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// ---- keys -------------------------------------------------------------------------------------

const isTyping = (target) => target.closest('input, textarea, select, [contenteditable]') !== null;
let isGoing = false;

function step(by) {
  const rows = [...document.querySelectorAll('a.open')];
  const at = rows.indexOf(document.activeElement?.closest('tr')?.querySelector('a.open'));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) return;
  const key = event.key;
  if (isGoing) {
    isGoing = false;
    const link = [...document.querySelectorAll('a[data-go]')].find((a) => a.dataset.go === key);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (key === 'g') isGoing = true;
  else if (key === 'j') step(1);
  else if (key === 'k') step(-1);
  else if (key === '?') $('#keys')?.showModal();
  else if ((key === 'a' || key === 'd') && !event.repeat && !$('dialog[open]')) $(`button[data-key="${key}"]`)?.click();
  else if (key === '/' && $('[data-search]')) { event.preventDefault(); $('[data-search]').focus(); }
});

// ---- copying ----------------------------------------------------------------------------------

if (navigator.clipboard) {
  for (const block of document.querySelectorAll('pre[data-copy]')) {
    const button = el('button', { type: 'button', class: 'copy' }, 'Copy');
    const frame = el('div', { class: 'copyable' });
    const text = block.textContent;
    block.replaceWith(frame);
    frame.append(block, button);
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
  }
}

// ---- remaining time of an approval ------------------------------------------------------------

for (const time of document.querySelectorAll('time[data-until]')) {
  const tell = () => {
    const left = Math.round((Date.parse(time.dateTime) - Date.now()) / 1000);
    time.textContent = left <= 0 ? 'expired' : left < 90 ? `in ${left} s` : `in ${Math.round(left / 60)} min`;
  };
  tell();
  setInterval(tell, 1000);
}

// ---- a key typed into a page that came over plain HTTP ----------------------------------------

if (!window.isSecureContext) $('[data-insecure]')?.removeAttribute('hidden');

const hex = (buffer) => [...new Uint8Array(buffer)].map((b) => b.toString(16).padStart(2, '0')).join('');

// ---- the proof of a tab -----------------------------------------------------------------------

// A browser sends a cookie to every port of a host, and so to other servers on the loopback. The
// proof stays with this origin, including its port, and with this tab.
const PROOF = 'par-proof';

// The code of a login link is in the fragment: no server and no log sees it. It leaves the address
// at once, and a person sends the form.
const link = $('input[data-link]');
const code = location.hash.match(/^#(parlink_[0-9a-f]{64})$/);
if (link && code) {
  history.replaceState(null, '', location.pathname + location.search);
  link.value = code[1];
  link.form.querySelector('button').focus();
}

const begins = $('input[data-proof="new"]');
begins?.form.addEventListener('submit', () => {
  const proof = hex(crypto.getRandomValues(new Uint8Array(32)).buffer);
  try {
    sessionStorage.setItem(PROOF, proof);
    begins.value = proof;
  } catch { /* Without storage the login can only read. */ }
});

function answerable(input) {
  let proof = null;
  try { proof = sessionStorage.getItem(PROOF); } catch { /* As above. */ }
  if (proof === null) {
    $('[data-unproven]')?.removeAttribute('hidden');
    return;
  }
  input.value = proof;
  for (const button of input.form.querySelectorAll('button')) button.disabled = false;
}

const answers = $('input[data-proof="kept"]');
if (answers) answerable(answers);

// An approval of high risk is asked for twice.
const second = $('#second');
if (answers && second) {
  let isSure = false;
  answers.form.addEventListener('submit', (event) => {
    if (event.submitter?.value !== 'grant' || isSure) return;
    event.preventDefault();
    second.showModal();
  });
  $('[data-sure]', second).addEventListener('click', () => {
    isSure = true;
    answers.form.requestSubmit($('button[data-key="a"]'));
  });
}

// ---- the leaf hash, computed here -------------------------------------------------------------

async function checkLeaf(badge) {
  const say = (tone, text) => { badge.className = `badge ${tone}`; badge.textContent = text; };
  if (!window.crypto?.subtle) {
    say('warn', 'cannot be checked here: browsers offer no hashing on plain HTTP from another machine');
    return;
  }
  const header = Uint8Array.from(atob(badge.dataset.bytes), (c) => c.charCodeAt(0));
  // A leaf is SHA-256(0x00 ‖ header), RFC 6962.
  const leaf = hex(await crypto.subtle.digest('SHA-256', new Uint8Array([0, ...header])));
  if (leaf !== badge.dataset.leaf) say('bad', `✗ this browser computes a different leaf: ${leaf}`);
  else if (badge.dataset.next && badge.dataset.next !== leaf) say('bad', '✗ the next entry contains a different leaf');
  else say('good', '✓ verified in this browser: the bytes hash to this leaf' + (badge.dataset.next ? ', and the next entry contains it' : ''));
}

const verdict = $('#verdict[data-bytes]');
if (verdict) checkLeaf(verdict);

// ---- the live tail ----------------------------------------------------------------------------

const ROWS_MAX = 1000;

/** A word of the query grammar: quoted where it holds what separates or stands for others. */
const word = (name, value) =>
  `${name}:${/[\s"*]/.test(value) ? `"${value.replace(/[\\"]/g, '\\$&')}"` : value}`;

function tailRow(row, query) {
  const narrow = (name, value, shown) => (value === '' ? '' : el('a', {
    href: '/ui/audit?q=' + encodeURIComponent(`${query} ${word(name, value)}`.trim()),
  }, shown ?? value));
  const badge = row.outcome === '' ? '' : el('span', { class: `badge ${row.tone}` }, row.outcome);
  const cells = [
    el('a', { class: 'open', href: `/ui/audit/${row.seq}` }, String(row.seq)), row.time,
    narrow('kind', row.kind), narrow('principal', row.who), row.tool, badge, row.policies,
    row.run === '' ? '' : el('a', { href: `/ui/runs/${row.run}`, title: row.run }, '…' + row.run.slice(-6)),
  ];
  return el('tr', { class: 'new' }, ...cells.map((cell) => el('td', {}, cell)));
}

function follow(tail) {
  const rows = $('#rows');
  const state = $('#state');
  const query = tail.dataset.follow;
  const jump = el('button', { type: 'button', class: 'jump primary', hidden: '' });
  tail.after(jump);
  let waiting = 0;
  let last = Number(tail.dataset.last);
  const isAtEnd = () => window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
  const toEnd = () => { waiting = 0; jump.hidden = true; window.scrollTo(0, document.body.scrollHeight); };
  jump.addEventListener('click', toEnd);
  window.addEventListener('scroll', () => { if (isAtEnd()) { waiting = 0; jump.hidden = true; } });
  const source = new EventSource(`/ui/events?q=${encodeURIComponent(query)}&after=${last}`);
  source.addEventListener('open', () => { state.textContent = '● live'; state.className = 'live on'; });
  source.addEventListener('error', () => {
    const isOver = source.readyState === EventSource.CLOSED;
    state.textContent = isOver ? 'ended: reload the page' : 'reconnecting…';
    state.className = 'live off';
  });
  source.addEventListener('entry', (event) => {
    const row = JSON.parse(event.data);
    if (row.seq <= last) return;
    last = row.seq;
    const wasAtEnd = isAtEnd();
    rows.append(tailRow(row, query));
    if (wasAtEnd) {
      while (rows.childElementCount > ROWS_MAX) rows.firstElementChild.remove();
      toEnd();
    } else {
      // The reader has scrolled up: nothing moves, and a button leads back to the newest entry.
      waiting += 1;
      jump.textContent = `${waiting} new · jump to live`;
      jump.hidden = false;
    }
  });
  toEnd();
}

// Alt-click excludes the value: the last term of its link is negated.
document.addEventListener('click', (event) => {
  const link = event.altKey ? event.target.closest('table.entries a[href*="?q="]') : null;
  if (!link) return;
  event.preventDefault();
  const to = new URL(link.href);
  const q = to.searchParams.get('q');
  const last = q.match(/(?:[^\s"]|"(?:[^"\\]|\\.)*")+$/);
  if (!last) return;
  to.searchParams.set('q', q.slice(0, last.index) + '-' + last[0]);
  location.assign(to);
});

const tail = $('#tail[data-follow]');
if (tail && window.EventSource) follow(tail);
