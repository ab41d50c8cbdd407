// Who works: a lane for each worker, with what it holds, and an end where it died.
import { useEffect } from 'preact/hooks';
import type { Met, Worker } from '../api/types';
import { DoingText } from '../parts/doing';
import { Top } from '../parts/frame';
import { LeaseManager } from '../parts/leases';
import { Pill } from '../parts/mark';
import { Age } from '../parts/time';
import { usePolled } from '../parts/polled';
import { Trouble } from '../parts/trouble';
import { now } from '../state/clock';
import { nav } from '../state/nav';
import { href } from '../state/route';
import { plain } from '../text';
import { age, clock, count, local } from '../time';

export function Workers() {
  const { data, problem } = usePolled<{ workers: Worker[] }>('workers', 2000, 'all=true');
  const workers = [...(data?.workers ?? [])].sort((a, b) => Number(b.is_live) - Number(a.is_live) || (a.started_at < b.started_at ? -1 : 1));
  const live = workers.filter((one) => one.is_live).length;
  useEffect(() => {
    if (data) nav.value = { ...nav.value, workers: count(live) };
  }, [data]);
  const seen = workers.filter((one) => one.is_live || now.value - Date.parse(one.seen_at) < 3_600_000);
  const from = Math.min(now.value - 60_000, ...seen.map((one) => Date.parse(one.started_at)));
  return (
    <>
      <Top title="Workers" />
      <Trouble problem={problem} />
      {data && live === 0 && (
        <div class="card empty">
          <h2>No worker is alive</h2>
          <p>Runs wait until one starts. A worker finds them by itself.</p>
          <pre tabIndex={0} aria-label="command">holdfast worker MODULE:APP</pre>
        </div>
      )}
      {workers.length > 0 && (
        <div class="card lanes" tabIndex={0} role="group" aria-label="workers">
          {workers.map((worker) => (
            <Lane key={worker.instance} worker={worker} from={from} />
          ))}
        </div>
      )}
      <LeaseManager />
    </>
  );
}

/** Runs that a line names. */
const NAMED = 3;

/** What a worker took over, newest first: one line for each worker that was gone. */
function takeOvers(taken: readonly Met[]): { from: string; runs: string[]; at: string }[] {
  const found = new Map<string, { from: string; runs: string[]; at: string }>();
  for (const one of [...taken].reverse()) {
    const known = found.get(one.detail);
    if (known) known.runs.push(one.run);
    else found.set(one.detail, { from: one.detail, runs: [one.run], at: one.at });
  }
  return [...found.values()].slice(0, 5);
}

function Lane({ worker, from }: { worker: Worker; from: number }) {
  const to = now.value;
  const start = Math.max(from, Date.parse(worker.started_at));
  const end = worker.is_live ? to : Date.parse(worker.seen_at);
  const x = (at: number) => Math.min(100, Math.max(0, ((at - from) / (to - from)) * 100));
  const met = worker.recovery.recent;
  return (
    <section class="lane" aria-label={plain(worker.worker)}>
      <div class="who">
        <Pill status={worker.is_live ? 'completed' : 'failed'}>{worker.is_live ? 'alive' : 'gone'}</Pill> <b class="text">{plain(worker.worker)}</b>
        <div class="small dim">
          {plain(worker.host)}, process {worker.pid}
        </div>
        <div class="small dim">
          queues {worker.queues.map(plain).join(', ') || 'all'} · {count(worker.active)} active
        </div>
        {worker.is_live && (
          <div class="small dim">
            lease renewed <Age at={worker.seen_at} isAgo />
          </div>
        )}
      </div>
      <div>
        <svg class="life" role="img" aria-label={`${worker.is_live ? 'alive' : 'gone'} since ${clock(Date.parse(worker.started_at))}`}>
          <rect class={worker.is_live ? 'alive' : 'dead'} x={`${x(start)}%`} y="3" width={`${Math.max(0.6, x(end) - x(start))}%`} height="18" rx="5" />
          {worker.holds.map((run) => (
            <rect class="run-bar" x={`${x(Date.parse(run.started_at ?? run.created_at))}%`} y="8" width={`${Math.max(0.5, x(to) - x(Date.parse(run.started_at ?? run.created_at)))}%`} height="8" rx="3" opacity=".45">
              <title>{plain(run.id)}</title>
            </rect>
          ))}
          {!worker.is_live && (
            <text x={`${x(end)}%`} y="33" text-anchor={x(end) > 85 ? 'end' : 'start'}>
              {`✕ last seen ${age(to - end)} ago`}
            </text>
          )}
          <text x={`${x(start) > 85 ? x(end) : x(start)}%`} y="33" text-anchor={x(start) > 85 ? 'end' : 'start'} visibility={worker.is_live ? 'visible' : 'hidden'}>
            {`since ${local(Date.parse(worker.started_at), to)}`}
          </text>
        </svg>
        <div class="holds">
          {worker.holds.map((run) => (
            <a class="holding clip" href={href('run', { id: run.id })}>
              {plain(run.id)} <span class="dim"><DoingText run={run} /></span>
            </a>
          ))}
          {worker.is_live && worker.holds.length === 0 && <span class="small dim">holds no run</span>}
        </div>
        {worker.recovery.taken.length > 0 && (
          <div class="small soft">
            {takeOvers(worker.recovery.taken).map(({ from: dead, runs, at }) => (
              <div class="text">
                took over{' '}
                {runs.slice(0, NAMED).map((run, place) => (
                  <>
                    {place > 0 && ', '}
                    <a class="id" href={href('run', { id: run })}>{plain(run)}</a>
                  </>
                ))}
                {runs.length > NAMED && ` and ${count(runs.length - NAMED)} more`}
                {dead && ` from ${plain(dead)}`} <span class="dim"><Age at={at} isAgo /></span>
              </div>
            ))}
          </div>
        )}
        {worker.is_live && met.length > 0 && (
          <div class="small soft">
            {met.slice(-5).map((one) => (
              <div class="text">
                {plain(one.kind)} <a class="id" href={href('run', { id: one.run })}>{plain(one.run)}</a> <span class="dim">{plain(one.detail)}</span>
              </div>
            ))}
          </div>
        )}
      </div>
    </section>
  );
}
