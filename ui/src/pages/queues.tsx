// What waits to begin, what has begun, what holds the rest back, and what people do about it.
import { useEffect } from 'preact/hooks';
import type { Queue } from '../api/types';
import { Top } from '../parts/frame';
import { GateActs, weightsText, type Rule } from '../parts/gate';
import { Gauge } from '../parts/gauge';
import { Mark, Pill } from '../parts/mark';
import { Age, Time } from '../parts/time';
import { usePolled } from '../parts/polled';
import { hasNothing, Instead, Trouble } from '../parts/trouble';
import { nav } from '../state/nav';
import { href } from '../state/route';
import { plain } from '../text';
import { count } from '../time';

const SHOWN = 4;

export function Queues() {
  const { data, problem, load } = usePolled<{ queues: Queue[] }>('queues', 2000);
  useEffect(() => {
    if (data) nav.value = { ...nav.value, queues: count(data.queues.length) };
  }, [data]);
  return (
    <>
      <Top title="Queues" />
      <Trouble problem={problem} />
      {data?.queues.length === 0 && (
        <div class="card empty">
          <h2>No queue has a run or a worker</h2>
          <p>A queue exists once a run names it.</p>
          <pre tabIndex={0} aria-label="command">holdfast worker MODULE:APP --queue default</pre>
        </div>
      )}
      {data && data.queues.length > 0 && (
        <div class="card">
          {data.queues.map((queue) => (
            <Line key={queue.name} queue={queue} shares={SHOWN} done={load} />
          ))}
        </div>
      )}
    </>
  );
}

export function QueuePage({ name }: { name: string }) {
  const { data, problem, load } = usePolled<{ queue: Queue }>('queue', 2000, new URLSearchParams({ name }).toString());
  if (hasNothing(data, problem)) return <Instead problem={problem} />;
  const { queue } = data;
  return (
    <>
      <Top title={plain(name)} of="queues" />
      <div class="card">
        <Line queue={queue} shares={0} done={load} />
      </div>
      <div class="card">
        <h2>Rules</h2>
        <table class="plain">
          <thead>
            <tr>
              <th>Rule</th>
              <th>Counts now</th>
              <th>From</th>
            </tr>
          </thead>
          <tbody>
            {rulesOf(queue).map((rule) => (
              <tr>
                <td class="mono">{rule.name}</td>
                <td class="mono text">{plain(rule.value) || <span class="dim">no limit</span>}</td>
                <td class="dim">{queue.overrides.includes(rule.name) ? 'set by hand' : queue.is_declared ? 'the code' : 'nothing declares it'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {queue.loads.length > 0 && (
        <div class="card">
          <h2>Shares</h2>
          <Shares queue={queue} most={queue.loads.length} />
        </div>
      )}
    </>
  );
}

function Line({ queue, shares, done }: { queue: Queue; shares: number; done: () => void }) {
  const figure = (name: 'waiting' | 'running' | 'paused', status: string) => (
    <a class="num" href={href('', { queue: queue.name, status })}>
      <b>
        {count(queue[name])}
        {queue.capped.includes(name) ? '+' : ''}
      </b>
    </a>
  );
  return (
    <section class="entry" aria-label={plain(queue.name)}>
      <div>
        <a class="id text" href={href('queues', { name: queue.name })}>
          {plain(queue.name)}
        </a>
        <div class="small dim text">{inWords(queue) || 'no rules'}</div>
        {queue.overrides.length > 0 && <div class="small is-paused changed">{queue.overrides.join(', ')} set by hand</div>}
      </div>
      <div>
        {figure('waiting', 'pending')} waiting
        {queue.oldest && queue.since && (
          <div class="small dim">
            <a class="id text" href={href('run', { id: queue.oldest })}>
              {plain(queue.oldest)}
            </a>{' '}
            waits <Age at={queue.since} />
          </div>
        )}
        <HeldBack queue={queue} />
      </div>
      <div>
        {figure('running', 'running')} running{queue.paused > 0 && <span>, {figure('paused', 'paused')} paused</span>}
        {(queue.begun > 0 || queue.at_once !== null) && <Gauge taken={queue.begun} most={queue.at_once} word={`places taken${queue.parked ? `, ${count(queue.parked)} by runs that only wait` : ''}`} />}
        <Serving queue={queue} />
      </div>
      <GateActs
        kind="queue"
        name={queue.name}
        isPaused={queue.is_paused}
        isByHand={queue.overrides.length > 0}
        rules={rulesOf(queue)}
        canLift
        about={{ pause: 'No run of it begins until you resume it. Runs that have begun continue.', resume: 'Its runs begin again, in their order.' }}
        done={done}
      />
      {shares > 0 && queue.loads.length > 0 && <Shares queue={queue} most={shares} />}
      {queue.problem && <p class="error-text text span">{plain(queue.problem)}</p>}
    </section>
  );
}

function HeldBack({ queue }: { queue: Queue }) {
  if (!queue.held_back) return null;
  return (
    <div class={`held ${queue.is_paused ? 'is-paused' : queue.workers.length ? 'is-pending' : 'is-failed'}`}>
      {queue.is_paused ? <Pill status="paused" /> : <Mark status={queue.workers.length ? 'pending' : 'failed'} />}{' '}
      <span class="text">{plain(queue.is_paused ? queue.held_back.replace(/^paused:? ?/, '') : queue.held_back)}</span>
      {queue.next_at && !queue.is_paused && (
        <span class="dim">
          {' '}
          (<Time at={queue.next_at} />)
        </span>
      )}
    </div>
  );
}

function Serving({ queue }: { queue: Queue }) {
  return (
    <div class="small">
      {queue.workers.length ? (
        <span class="dim">
          served by <span class="mono text">{queue.workers.slice(0, 5).map(plain).join(', ')}</span>
          {queue.workers.length > 5 && ` and ${count(queue.workers.length - 5)} more`}
        </span>
      ) : (
        <span class="error-text">
          no worker serves it: <span class="mono">holdfast worker MODULE:APP --queue {plain(queue.name)}</span>
        </span>
      )}
      {queue.unserved.map((one) => (
        <div class="error-text">
          {count(one.count)} of {plain(one.workflow)} {one.version && `v${plain(one.version)}`} wait for a worker that has this version
        </div>
      ))}
    </div>
  );
}

/** Who competes: each share with its weight, what waits, and what has begun. */
function Shares({ queue, most }: { queue: Queue; most: number }) {
  const shown = queue.loads.slice(0, most);
  const widest = Math.max(1, ...shown.map((one) => one.waiting + one.begun));
  const rest = queue.share_count - shown.length;
  return (
    <ul class="shares span" aria-label="shares">
      {shown.map((one) => (
        <li>
          <span class="mono text">{plain(one.share) || 'no share'}</span>
          <span class="dim num">×{queue.shares[one.share] ?? 1}</span>
          <div class="bar-of" aria-hidden="true">
            <span class="is-running" style={{ width: `${(one.begun / widest) * 100}%` }} />
            <span class="is-pending" style={{ width: `${(one.waiting / widest) * 100}%` }} />
          </div>
          <span class="small soft num">
            {count(one.begun)}
            {queue.share_at_once !== null && ` of ${count(queue.share_at_once)}`} begun, {count(one.waiting)} waiting
          </span>
        </li>
      ))}
      {rest > 0 && (
        <li class="small dim rest">
          {most === SHOWN ? (
            <a href={href('queues', { name: queue.name })}>and {count(rest)} more</a>
          ) : (
            `and ${count(rest)} more with fewer runs waiting`
          )}
        </li>
      )}
    </ul>
  );
}

function inWords(queue: Queue): string {
  return [
    queue.at_once !== null && `${count(queue.at_once)} at once`,
    queue.per_worker !== null && `${count(queue.per_worker)} per worker`,
    queue.rate && plain(queue.rate),
    queue.share_at_once !== null && `${count(queue.share_at_once)} of a share at once`,
    queue.frees_parked && 'a run that only waits frees its place',
  ]
    .filter(Boolean)
    .join(', ');
}

const text = (value: number | null): string => (value === null ? '' : String(value));

function rulesOf(queue: Queue): Rule[] {
  return [
    { name: 'at_once', label: 'At once', about: 'runs begun and not ended', kind: 'number', value: text(queue.at_once) },
    { name: 'per_worker', label: 'Per worker', about: 'of them on one worker', kind: 'number', value: text(queue.per_worker) },
    { name: 'rate', label: 'Rate', about: 'runs that begin, such as 100/m', kind: 'text', value: queue.rate ?? '' },
    { name: 'share_at_once', label: 'Share at once', about: 'runs of one share', kind: 'number', value: text(queue.share_at_once) },
    { name: 'parked', label: 'Parked', about: 'a run that only waits …', kind: 'choice', choices: ['holds', 'frees'], value: queue.frees_parked ? 'frees' : 'holds' },
    { name: 'shares', label: 'Shares', about: 'weights, such as gold=3 silver=2; all others have 1', kind: 'weights', value: weightsText(queue.shares) },
  ];
}
