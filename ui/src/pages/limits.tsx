// What steps wait for: each limit, what it allows, the keys most wait for, and who has their places.
import { useEffect } from 'preact/hooks';
import type { BusyLine, Limit } from '../api/types';
import { Top } from '../parts/frame';
import { GateActs, type Rule } from '../parts/gate';
import { Gauge } from '../parts/gauge';
import { Pill } from '../parts/mark';
import { usePolled } from '../parts/polled';
import { Age, Time } from '../parts/time';
import { hasNothing, Instead, Trouble } from '../parts/trouble';
import { now } from '../state/clock';
import { nav } from '../state/nav';
import { href } from '../state/route';
import { plain } from '../text';
import { count, left } from '../time';

export function Limits() {
  const { data, problem, load } = usePolled<{ limits: Limit[] }>('limits', 2000);
  useEffect(() => {
    if (data) nav.value = { ...nav.value, limits: count(data.limits.length) };
  }, [data]);
  return (
    <>
      <Top title="Limits" />
      <Trouble problem={problem} />
      {data?.limits.length === 0 && (
        <div class="card empty">
          <h2>No step has a limit</h2>
          <p>A limit holds for all workers of the store. It is listed here once a worker declares it.</p>
          <pre tabIndex={0} aria-label="code">{'api = Limit("api", rate="50/s", burst=10)\n\n@step(limits=[api])\nasync def price(item: Item) -> int: ...'}</pre>
        </div>
      )}
      {data && data.limits.length > 0 && (
        <div class="card">
          {data.limits.map((one) => (
            <Line key={one.name} limit={one} done={load} />
          ))}
        </div>
      )}
    </>
  );
}

export function LimitPage({ name }: { name: string }) {
  const { data, problem, load } = usePolled<{ limit: Limit; busiest: BusyLine[] }>('limit', 2000, new URLSearchParams({ name }).toString());
  if (hasNothing(data, problem)) return <Instead problem={problem} />;
  return (
    <>
      <Top title={plain(name)} of="limits" />
      <div class="card">
        <Line limit={data.limit} done={load} />
      </div>
      <div class="card">
        <h2>Keys that most steps wait for</h2>
        {data.busiest.length === 0 ? <p class="pad dim">Nothing runs or waits under this limit now.</p> : <Keys limit={data.limit} lines={data.busiest} />}
      </div>
    </>
  );
}

function Line({ limit, done }: { limit: Limit; done: () => void }) {
  return (
    <section class="entry" aria-label={plain(limit.name)}>
      <div>
        <a class="id text" href={href('limits', { name: limit.name })}>
          {plain(limit.name)}
        </a>
        <div class="small dim">{inWords(limit)}</div>
        {limit.by_hand && <div class="small is-paused changed">set by hand</div>}
      </div>
      <div>
        <b class="num">{count(limit.waiting)}</b> waiting
        {limit.paused && (
          <div class="held is-paused">
            <Pill status="paused" /> <span class="text">{plain(limit.reason)}</span>
          </div>
        )}
        {!limit.paused && limit.next && <HeldUntil at={limit.next} />}
      </div>
      <div>
        <b class="num">{count(limit.held)}</b> running
        <div class="small dim">{limit.keys === 1 ? '1 key' : `${count(limit.keys)} keys`} in use</div>
      </div>
      <GateActs
        kind="limit"
        name={limit.name}
        isPaused={limit.paused}
        isByHand={limit.by_hand}
        rules={rulesOf(limit)}
        canLift={false}
        about={{ pause: 'No step begins under it until you resume it. Steps that run continue.', resume: 'Steps begin again, in the order in which they wait.' }}
        done={done}
      />
    </section>
  );
}

const HeldUntil = ({ at }: { at: string }) => (
  <div class="small soft">
    the next begins in {left(Date.parse(at), now.value)} (<Time at={at} />)
  </div>
);

function Keys({ limit, lines }: { limit: Limit; lines: BusyLine[] }) {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="keys of the limit">
      <table class="plain">
        <thead>
          <tr>
            <th>Key</th>
            <th class="right">Waiting</th>
            <th>Places</th>
            <th>Held by</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line) => (
            <tr>
              <td class="id text">{plain(line.key) || <span class="dim">no key</span>}</td>
              <td class="num right">
                {count(line.waiting)}
                {line.oldest && (
                  <div class="small dim">
                    the first for <Age at={line.oldest} />
                  </div>
                )}
              </td>
              <td>
                <Gauge taken={line.held} most={limit.at_once} word="taken" />
                {line.next && <HeldUntil at={line.next} />}
              </td>
              <td>
                {line.places.map((place) => (
                  <a class="holding clip" href={href('run', { id: place.run, step: place.step })}>
                    {plain(place.run)} <span class="dim">{plain(place.step)}</span>
                  </a>
                ))}
                {line.held > line.places.length && <span class="small dim"> and {count(line.held - line.places.length)} more</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inWords(limit: Limit): string {
  const rate = limit.rate && `${limit.rate}${limit.burst > 1 ? `, ${count(limit.burst)} together` : ''}`;
  return [rate, limit.at_once !== null && `${count(limit.at_once)} at once${limit.keys > 1 ? ' for each key' : ''}`].filter(Boolean).join(', ');
}

function rulesOf(limit: Limit): Rule[] {
  const rate: Rule[] = [
    { name: 'rate', label: 'Rate', about: 'steps that begin, such as 50/s', kind: 'text', value: limit.rate },
    { name: 'burst', label: 'Burst', about: 'steps that may begin together after a pause', kind: 'number', value: limit.rate ? String(limit.burst) : '' },
  ];
  return [...rate, { name: 'at_once', label: 'At once', about: 'steps that run at the same time', kind: 'number', value: limit.at_once === null ? '' : String(limit.at_once) }];
}
