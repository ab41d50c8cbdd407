// What is around every page.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { connection } from '../state/connection';
import { now } from '../state/clock';
import { isHelpOpen } from '../state/keys';
import { me, signOut } from '../state/me';
import { countAll, counted, nav } from '../state/nav';
import { href, page, type PageName } from '../state/route';
import { isDark, toggleTheme } from '../state/theme';
import { toastError, toasts } from '../state/toasts';
import { plain } from '../text';
import { Sign } from './mark';
import { ahead } from '../api/client';
import { clock, count, duration } from '../time';
import { Dialog } from './dialog';

const PAGES: readonly [PageName, string, keyof typeof nav.value, string?][] = [
  ['', 'Runs', 'runs'],
  ['workflows', 'Workflows', 'workflows'],
  ['batches', 'Batches', 'batches', 'batches'],
  ['workers', 'Workers', 'workers'],
  ['queues', 'Queues', 'queues'],
  ['limits', 'Limits', 'limits', 'limits'],
  ['schedules', 'Schedules', 'schedules', 'schedules'],
];
const PARENT: Partial<Record<PageName, PageName>> = { run: '', runs: '', workflow: 'workflows', batch: 'batches' };

export function Frame({ children }: { children: ComponentChildren }) {
  const here = PARENT[page.value] ?? page.value;
  const pages = useRef<HTMLElement>(null);
  useEffect(() => {
    const item = pages.current?.querySelector<HTMLElement>('[aria-current]'); // on a phone the row of pages scrolls
    if (item) pages.current!.scrollLeft = item.offsetLeft + item.offsetWidth / 2 - pages.current!.clientWidth / 2;
  }, [here]);
  useEffect(() => {
    const look = () => void countAll().catch(() => undefined); // a page that lost its server says so by itself
    look();
    const timer = window.setInterval(look, 10_000);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <div class="frame">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <nav class="nav" aria-label="pages" ref={pages}>
        <a class="brand" href={href('')} aria-label="Holdfast">
          <Sign size={18} />
          <span>Holdfast</span>
        </a>
        {PAGES.filter(([, , , feature]) => !feature || me.value?.features.includes(feature)).map(([name, label, figure]) => (
          <a class="item" href={href(name)} aria-current={here === name ? 'page' : undefined}>
            {label} <span class="num">{nav.value[figure]}</span>
          </a>
        ))}
        <footer>
          <button onClick={toggleTheme} aria-label={isDark() ? 'switch to light' : 'switch to dark'}>
            {isDark() ? '☀ light' : '☾ dark'}
          </button>
          <button onClick={() => (isHelpOpen.value = true)} aria-label="keys">
            <kbd>?</kbd> keys
          </button>
          {me.value && (
            <>
              <button onClick={() => void signOut().catch(toastError)}>Sign out</button>
              <span class="clip" title={plain(me.value.store)}>
                {plain(me.value.actor)} · {me.value.role}
              </span>
              <span class="clip" title={plain(me.value.store)}>
                {me.value.engine}
              </span>
              <span class="clip">{me.value.version}</span>
            </>
          )}
        </footer>
      </nav>
      <main class="content" id="content">
        {children}
      </main>
      <Toasts />
      {isHelpOpen.value && <Help />}
    </div>
  );
}

/** `of`: the page that lists what this one shows. */
export function Top({ title, of, children }: { title: string; of?: PageName; children?: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Holdfast`;
  }, [title]);
  return (
    <div class="top">
      {of === undefined ? (
        <h1 class="text">{title}</h1>
      ) : (
        <div class="crumb">
          <a class="soft" href={href(of)}>
            {PAGES.find(([name]) => name === of)?.[1]}
          </a>
          <span class="dim">/</span>
          <h1 class="text">{title}</h1>
        </div>
      )}
      <Live isWhole />
      {children}
    </div>
  );
}

/** Whether the page is live. A lost connection says since when; trying again is the stream's own business. */
export function Live({ isWhole }: { isWhole?: boolean }) {
  const { state, since, why } = connection.value;
  const text = { connecting: 'connecting…', live: 'live', over: 'ended', lost: '' }[state];
  const workers = isWhole && state === 'live' ? counted.value?.workers : undefined;
  return (
    <>
    <span class={`live push ${state === 'lost' ? 'is-lost' : state === 'live' ? '' : 'is-over'}`} role="status" title={plain(why)}>
      <i />
      {state === 'lost' ? `not connected since ${clock(since)} (${duration(Math.max(0, Math.floor((now.value - ahead.value - since) / 1000) * 1000))}), trying again` : text}
    </span>
    {workers !== undefined && (
      <a class={`fleet ${workers ? '' : 'is-lost'}`} href={href('workers')}>
        {workers ? `${count(workers)} ${workers === 1 ? 'worker' : 'workers'}` : 'no worker'}
      </a>
    )}
    </>
  );
}

function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div class={`toast is-${one.status}`} key={one.number}>
          {one.text}
        </div>
      ))}
    </div>
  );
}

const KEYS: readonly [string, string][] = [
  ['/', 'search'],
  ['j k', 'next and previous row, or step'],
  ['Enter', 'open'],
  ['x', 'select a run'],
  ['+ − 0', 'zoom the timeline in, out, and back'],
  ['Esc', 'close, clear'],
  ['g r', 'runs'],
  ['g w', 'workflows'],
  ['g b', 'batches'],
  ['g k', 'workers'],
  ['g q', 'queues'],
  ['g l', 'limits'],
  ['g s', 'schedules'],
  ['?', 'this help'],
];

function Help() {
  return (
    <Dialog title="Keys" close={() => (isHelpOpen.value = false)}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <>
            <dt>
              {keys.split(' ').map((key) => (
                <>
                  <kbd>{key}</kbd>{' '}
                </>
              ))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
    </Dialog>
  );
}

