// The list of runs: what every run is doing, live.
import { useComputed } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { isOpen, type Run } from '../api/types';
import { Top } from '../parts/frame';
import { Mark } from '../parts/mark';
import { Virtual } from '../parts/virtual';
import { Bulk, type BulkVerb } from '../runs/bulk';
import { filterBody, filterText, filter, rangeFor, isSearch } from '../runs/filter';
import { Filters } from '../runs/filters';
import { Histogram } from '../runs/histogram';
import { LiveList, MOST } from '../runs/list';
import { Row } from '../runs/row';
import { current } from '../state/clock';
import { useKeys } from '../state/keys';
import { can } from '../state/me';
import { go, href, hrefWith, parameter, query } from '../state/route';
import { counted, nav } from '../state/nav';
import { count } from '../time';
import { StartButton } from './start';

const phone = window.matchMedia('(max-width: 760px)');

/** Changes at most every two seconds: what is counted anew after news. */
function useSettled(value: number): number {
  const [settled, setSettled] = useState(value);
  const timer = useRef(0);
  useEffect(() => {
    if (!timer.current && value !== settled)
      timer.current = window.setTimeout(() => {
        timer.current = 0;
        setSettled(value);
      }, 2000);
  }, [value, settled]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return settled;
}

export function Runs() {
  const list = useMemo(() => new LiveList(filter.value), [filterText.value]);
  useEffect(() => () => list.close(), [list]);
  const rows = list.rows.value;
  const changes = useSettled(list.changes.value);
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<{ verb: BulkVerb; isAll: boolean } | null>(null);
  const [active, setActive] = useState(-1);
  const activeNow = useRef(-1); // keys come faster than pictures: the next one counts from here
  const [total, setTotal] = useState('');
  const search = useRef<HTMLInputElement>(null);
  const lastPick = useRef(-1);
  const height = phone.matches ? 68 : 38;
  const canPick = can('bulk');
  const oldest = list.isAtEnd.value && rows.length < MOST ? rows.at(-1) : undefined;
  const fitting = rangeFor(oldest ? current() - Date.parse(oldest.created_at) : null);

  useEffect(() => {
    setPicked(new Set());
    setActive((activeNow.current = -1));
  }, [list]);

  const pick = (id: string, isRange: boolean) => {
    const next = new Set(picked);
    const place = rows.findIndex((run) => run.id === id);
    const from = isRange && lastPick.current >= 0 ? Math.min(lastPick.current, place) : place;
    const to = isRange && lastPick.current >= 0 ? Math.max(lastPick.current, place) : place;
    const isOn = !next.has(id);
    for (const run of rows.slice(from, to + 1)) {
      if (isOn) next.add(run.id);
      else next.delete(run.id);
    }
    lastPick.current = place;
    setPicked(next);
  };

  const step = (by: number) => {
    const next = Math.min(rows.length - 1, Math.max(0, activeNow.current + by));
    setActive((activeNow.current = next));
    const box = document.querySelector('.rows')?.getBoundingClientRect();
    if (!box) return;
    const top = box.top + next * height;
    if (top < 60) window.scrollBy(0, top - 80);
    else if (top + height > window.innerHeight - 20) window.scrollBy(0, top + height - window.innerHeight + 60);
  };
  useKeys({
    '/': (event) => {
      event.preventDefault();
      search.current?.focus();
    },
    j: () => step(1),
    k: () => step(-1),
    Enter: () => {
      const run = rows[activeNow.current];
      if (run) go(href('run', { id: run.id }));
    },
    x: () => {
      const run = rows[activeNow.current];
      if (canPick && run) pick(run.id, false);
    },
    Escape: () => setPicked(new Set()),
  });

  const nearEnd = useMemo(() => () => void list.more(), [list]);
  return (
    <>
      <Top title="Runs">
        <Search input={search} />
        <StartButton />
      </Top>
      {!isSearch.value && <Histogram changes={changes} fitting={fitting} />}
      <Filters changes={changes} tell={(text) => { setTotal(text); if (!filterText.value) nav.value = { ...nav.value, runs: text }; }} />
      {counted.value?.workers === 0 && rows.some(isOpen) && (
        <p class="notice is-paused" role="status">
          <Mark status="paused" />
          <span>
            No worker is alive: runs wait until one starts. <code class="mono">holdfast worker MODULE:APP</code>
          </span>
        </p>
      )}
      {list.problem.value && (
        <p class="notice is-failed" role="alert">
          <Mark status="failed" />
          <span class="text">
            {list.problem.value.title}. {list.problem.value.detail}
          </span>
        </p>
      )}
      {rows.length > 0 && <div class={`card list ${picked.size ? 'picking' : ''}`} role="table" aria-label="Runs" aria-rowcount={rows.length + 1}>
            <div role="rowgroup">
              <div role="row" class="list-head">
                <span role="columnheader"><span class="unseen">select</span></span>
                <span role="columnheader">Run</span>
                <span role="columnheader">Workflow</span>
                <span role="columnheader">Doing</span>
                <span role="columnheader">Age</span>
                <span role="columnheader">Took</span>
                <span role="columnheader">Worker</span>
              </div>
            </div>
            <Virtual
              label="Runs"
              count={rows.length}
              height={height}
              nearEnd={nearEnd}
              row={(index, top) => {
                const run = rows[index]!;
                return <Row key={run.id} run={run} index={index} top={top} isActive={index === active} isPicked={picked.has(run.id)} isFresh={list.fresh.has(run.id)} canPick={canPick} pick={pick} />;
              }}
            />
      </div>}
      {rows.length === 0 && list.hasLoaded.value && !list.problem.value && (query.value.size ? <NothingMatches list={list} /> : <NothingYet />)}
      {rows.length > 0 && <Foot list={list} />}
      {picked.size > 0 && (
        <div class="picked" role="region" aria-label="selection">
          <b class="num">{count(picked.size)} selected</b>
          <PickedActs rows={rows} picked={picked} open={(verb) => setBulk({ verb, isAll: false })} />
          {!isSearch.value && (
            <button class="btn bare" onClick={() => setBulk({ verb: 'cancel', isAll: true })}>
              Cancel all {total} that match
            </button>
          )}
          <button class="btn bare" onClick={() => setPicked(new Set())}>
            Clear
          </button>
        </div>
      )}
      {bulk && <Bulk verb={bulk.verb} which={bulk.isAll ? { filter: filterBody() } : { ids: [...picked] }} close={() => setBulk(null)} done={() => setPicked(new Set())} />}
      <Newer list={list} />
    </>
  );
}

function PickedActs({ rows, picked, open }: { rows: readonly Run[]; picked: ReadonlySet<string>; open: (verb: BulkVerb) => void }) {
  const chosen = rows.filter((run) => picked.has(run.id));
  return (
    <>
      {chosen.some(isOpen) && (
        <button class="btn danger" onClick={() => open('cancel')}>
          Cancel
        </button>
      )}
      {chosen.some((run) => run.status === 'failed' || run.status === 'cancelled') && (
        <button class="btn" onClick={() => open('retry')}>
          Retry
        </button>
      )}
      {chosen.some((run) => run.status === 'paused') && (
        <button class="btn" onClick={() => open('resume')}>
          Resume
        </button>
      )}
    </>
  );
}

function Search({ input }: { input: { current: HTMLInputElement | null } }) {
  const timer = useRef(0);
  const change = (text: string) => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => go(hrefWith({ q: text.trim() }), { replace: true }), 250);
  };
  const value = parameter('q');
  useEffect(() => {
    if (input.current && document.activeElement !== input.current) input.current.value = value;
  }, [value]);
  return (
    <div class="search">
      <input ref={input} type="search" aria-label="search" placeholder="beginning of an id, or attribute=value" defaultValue={value} onInput={(event) => change(event.currentTarget.value)} onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()} />
      <kbd>/</kbd>
    </div>
  );
}

function Foot({ list }: { list: LiveList }) {
  const rows = list.rows.value.length;
  if (rows >= MOST) return <p class="list-foot">{count(rows)} runs are shown. Narrow the filter to see older ones.</p>;
  if (isSearch.value)
    return (
      <p class="list-foot">
        {count(rows)} of the newest {count(list.looked.value)} failed runs.{' '}
        {!list.isAtEnd.value && (
          <button class="btn bare" onClick={() => void list.more()}>
            Look further
          </button>
        )}
      </p>
    );
  return <p class="list-foot">{list.isAtEnd.value ? `${count(rows)} ${rows === 1 ? 'run' : 'runs'}, no older ones` : `${count(rows)} loaded, more as you scroll`}</p>;
}

/** Runs that came in above what the reader looks at. */
function Newer({ list }: { list: LiveList }) {
  const first = useComputed(() => list.rows.value[0]?.id ?? '');
  const [seen, setSeen] = useState('');
  const [isDown, setDown] = useState(false);
  useEffect(() => {
    const look = () => setDown(window.scrollY > 400);
    window.addEventListener('scroll', look, { passive: true });
    return () => window.removeEventListener('scroll', look);
  }, []);
  useEffect(() => {
    if (!isDown) setSeen(first.value);
  }, [isDown, first.value]);
  const news = isDown && seen ? list.rows.value.findIndex((run) => run.id === seen) : 0;
  if (news <= 0) return null;
  return (
    <button class="btn main newer" onClick={() => window.scrollTo({ top: 0, behavior: 'smooth' })}>
      ↑ {count(news)} new
    </button>
  );
}

function NothingMatches({ list }: { list: LiveList }) {
  if (!list.isAtEnd.value)
    return (
      <div class="card empty">
        <h2>Not among the newest {count(list.looked.value)} failed runs</h2>
        <p>Errors are in no index, so the search reads them, newest first.</p>
        <button class="btn" onClick={() => void list.more()}>
          Look further
        </button>
      </div>
    );
  return (
    <div class="card empty">
      <h2>No run matches</h2>
      <p>Remove a filter, or choose a longer time.</p>
      <a class="btn" href={href('')}>
        Show all runs
      </a>
    </div>
  );
}

function NothingYet() {
  return (
    <div class="card empty">
      <h2>No runs yet</h2>
      <p>Start one with the button above or from a shell: it appears here by itself, and a worker takes it.</p>
      <pre tabIndex={0} aria-label="command">{'holdfast worker MODULE:APP\nholdfast start MODULE:APP WORKFLOW name=value'}</pre>
    </div>
  );
}
