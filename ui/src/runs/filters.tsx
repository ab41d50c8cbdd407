// Status chips with their counts, and the other filters. Every choice is a link.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask } from '../api/client';
import { STATUSES, type Counts, type Queue, type Status, type Workflow } from '../api/types';
import { useAgain } from '../parts/again';
import { Mark } from '../parts/mark';
import { go, hrefWith, parameter, query } from '../state/route';
import { plain } from '../text';
import { count, local } from '../time';
import { current } from '../state/clock';
import { filter, isSearch, RANGES } from './filter';
import { Views } from './views';

export function Filters({ changes, tell }: { changes: number; tell: (total: string) => void }) {
  const [counts, setCounts] = useState<Counts | null>(null);
  const chosen = new URLSearchParams(filter.value);
  chosen.delete('status');
  chosen.delete('error');
  const text = chosen.toString();
  const again = useAgain(`${text} ${changes}`);
  useEffect(() => {
    const controller = new AbortController();
    ask<Counts>('runs/counts', { query: chosen, signal: controller.signal }).then(
      (found) => {
        setCounts(found);
        tell(shown(found, STATUSES));
      },
      () => undefined,
    );
    return () => controller.abort();
  }, [text, changes, again]);
  const statuses = query.value.getAll('status');
  return (
    <div class="chips filters">
      <div class="chips">
      <a class={`chip ${statuses.length ? '' : 'on'}`} href={hrefWith({ status: null })}>
        All {counts && !isSearch.value && shown(counts, STATUSES)}
      </a>
      {STATUSES.map((status) => (
        <a class={`chip is-${status} ${statuses.includes(status) ? 'on' : ''}`} aria-current={statuses.includes(status) ? 'true' : undefined} href={hrefWith({ status: statuses.includes(status) ? null : status })}>
          <Mark status={status} size={12} />
          {status} {counts && !isSearch.value && shown(counts, [status])}
        </a>
      ))}
      </div>
      <div class="chips">
      <Chosen />
      <Select name="workflow" load={async () => (await ask<{ workflows: Workflow[] }>('workflows')).workflows.map((one) => one.name)} />
      <Select name="queue" load={async () => (await ask<{ queues: Queue[] }>('queues')).queues.map((one) => one.name)} />
      <select class={`chip ${parameter('range') ? 'on' : ''}`} aria-label="time" value={parameter('range')} onChange={(event) => go(hrefWith({ range: event.currentTarget.value, since: event.currentTarget.value, until: null }))}>
        <option value="">any time</option>
        {RANGES.map(([value, label]) => (
          <option value={value}>{label}</option>
        ))}
      </select>
      <ErrorText />
      <Views />
      </div>
    </div>
  );
}

/** Failed runs whose error contains a text. */
function ErrorText() {
  const value = parameter('error');
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (input.current && document.activeElement !== input.current) input.current.value = value;
  }, [value]);
  const search = (event: Event) => {
    event.preventDefault();
    go(hrefWith({ error: input.current!.value.trim() || null }));
  };
  return (
    <form class="error-filter" onSubmit={search} role="search">
      <input ref={input} class={`chip ${value ? 'on' : ''}`} type="search" aria-label="error contains" placeholder="error contains" maxLength={200} defaultValue={value} onChange={search} />
    </form>
  );
}

function shown(counts: Counts, statuses: readonly Status[]): string {
  const sum = statuses.reduce((total, status) => total + (counts.counts[status] ?? 0), 0);
  return `${count(sum)}${statuses.some((status) => counts.capped.includes(status)) ? '+' : ''}`;
}

/** Filters that came by a link or a brush: shown so that they can be taken off. */
function Chosen() {
  const others = ['version', 'worker', 'key', 'parent', 'root', 'attribute'].flatMap((name) => query.value.getAll(name).map((value) => [name, value] as const));
  const since = parameter('since');
  const until = parameter('until');
  const isBrushed = Boolean(until) || (Boolean(since) && since !== parameter('range'));
  const at = (text: string) => (Number.isNaN(Date.parse(text)) ? text : local(Date.parse(text), current()));
  return (
    <>
      {isBrushed && (
        <span class="chip on">
          {since ? at(since) : '…'} – {until ? at(until) : 'now'}
          <button class="x" aria-label="take off the time filter" onClick={() => go(hrefWith({ since: parameter('range') || null, until: null }))}>
            ×
          </button>
        </span>
      )}
      {others.map(([name, value]) => (
        <span class="chip on">
          {name === 'attribute' ? plain(value) : `${name}: ${plain(value)}`}
          <button class="x" aria-label={`take off ${name}`} onClick={() => go(hrefWith({ [name]: null }))}>
            ×
          </button>
        </span>
      ))}
    </>
  );
}

function Select({ name, load }: { name: 'workflow' | 'queue'; load: () => Promise<string[]> }) {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => {
    load().then((found) => setNames([...new Set(found)]), () => undefined);
  }, []);
  const value = parameter(name);
  const all = value && !names.includes(value) ? [value, ...names] : names;
  return (
    <select class={`chip ${value ? 'on' : ''}`} aria-label={name} value={value} onChange={(event) => go(hrefWith({ [name]: event.currentTarget.value }))}>
      <option value="">{name}: any</option>
      {all.map((one) => (
        <option value={one}>{plain(one)}</option>
      ))}
    </select>
  );
}
