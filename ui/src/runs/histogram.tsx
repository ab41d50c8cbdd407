// How many runs began when, and what became of them. Dragging over it narrows the list to that time.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask } from '../api/client';
import type { Bucket, Histogram as Data, Status } from '../api/types';
import { useAgain } from '../parts/again';
import { current } from '../state/clock';
import { go, hrefWith, parameter } from '../state/route';
import { clock, count, local, utc } from '../time';
import { filter, isShorter, rangeFor, wider } from './filter';

const STACK: readonly Status[] = ['completed', 'cancelled', 'running', 'pending', 'paused', 'failed'];
const HEIGHT = 54;
const BUCKETS = 96;

const total = (bucket: Bucket) => STACK.reduce((sum, status) => sum + bucket[status], 0);

/** `fitting`: the range that holds every run, as far as that is known. */
export function Histogram({ changes, fitting }: { changes: number; fitting: string }) {
  const [data, setData] = useState<Data | null>(null);
  const [closer, setCloser] = useState('');
  const range = parameter('range') || closer || fitting;
  const chosen = new URLSearchParams(filter.value);
  chosen.delete('since');
  chosen.delete('until');
  const asked = chosen.toString();
  const text = `${asked}&${range}`;
  const again = useAgain(`${text} ${changes}`);
  useEffect(() => setCloser(''), [asked]);
  useEffect(() => {
    const controller = new AbortController();
    const query = new URLSearchParams(chosen);
    query.set('since', range);
    query.set('buckets', String(BUCKETS));
    ask<Data>('runs/histogram', { query, signal: controller.signal }).then(
      (found) => {
        const first = found.buckets.find(total);
        const fits = first && !parameter('range') ? rangeFor(Date.parse(found.until) - Date.parse(first.at)) : range;
        const isFull = closer !== '' && first === found.buckets[0];
        if (isFull) setCloser(wider(closer));
        else if (isShorter(fits, range)) return setCloser(fits); // everything is in the last corner: look closer
        setData(found);
      },
      () => undefined,
    );
    return () => controller.abort();
  }, [text, changes, again]);
  return (
    <div class="card histogram">
      <div class="legend">
        {(['completed', 'failed', 'running'] as const).map((status) => (
          <span class={`is-${status}`}>
            <i />
            {status}
          </span>
        ))}
        <span class="push">runs by when they began{data?.is_capped ? `, the newest ${count(data.cap)}` : ''} · drag to filter</span>
      </div>
      <Bars data={data} />
    </div>
  );
}

function Bars({ data }: { data: Data | null }) {
  const ref = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const buckets = data?.buckets ?? [];
  const most = Math.max(1, ...buckets.map(total));
  const from = data ? Date.parse(data.since) : 0;
  const to = data ? Date.parse(data.until) : 1;
  const share = (event: PointerEvent) => {
    const box = ref.current!.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const end = () => {
    if (!drag || !data) return;
    const [a, b] = [Math.min(...drag), Math.max(...drag)];
    setDrag(null);
    if (b - a < 0.004) go(hrefWith({ since: null, until: null }));
    else go(hrefWith({ since: new Date(from + a * (to - from)).toISOString(), until: new Date(from + b * (to - from)).toISOString() }));
  };
  const since = Date.parse(parameter('since'));
  const until = Date.parse(parameter('until'));
  const place = (at: number) => Math.min(1, Math.max(0, (at - from) / (to - from)));
  const brush = drag ?? (Number.isNaN(since) && Number.isNaN(until) ? null : [place(since || from), place(until || to)]);
  const width = 100 / Math.max(1, buckets.length);
  const labels = [0, 0.25, 0.5, 0.75, 1];
  const all = buckets.reduce((sum, bucket) => sum + total(bucket), 0);
  return (
    <svg
      ref={ref}
      role="img"
      aria-label={data ? `${all} runs began between ${utc(from)} and ${utc(to)}; ${buckets.reduce((sum, b) => sum + b.failed, 0)} failed` : 'loading'}
      onPointerDown={(event) => {
        ref.current!.setPointerCapture(event.pointerId);
        setDrag([share(event), share(event)]);
      }}
      onPointerMove={(event) => drag && setDrag([drag[0], share(event)])}
      onPointerUp={end}
      onPointerCancel={() => setDrag(null)}
    >
      <line x1="0" x2="100%" y1={HEIGHT + 0.5} y2={HEIGHT + 0.5} stroke="var(--line-2)" />
      {buckets.map((bucket, index) => {
        let y = HEIGHT;
        return (
          <g>
            <title>{`${local(Date.parse(bucket.at), current())}: ${STACK.filter((status) => bucket[status]).map((status) => `${bucket[status]} ${status}`).join(', ') || 'nothing'}`}</title>
            <rect x={`${index * width}%`} y="0" width={`${width}%`} height={HEIGHT} fill="transparent" />
            {STACK.map((status) => {
              const value = bucket[status];
              if (!value) return null;
              const height = Math.max(status === 'failed' ? 2.5 : 1, (value / most) * (HEIGHT - 4));
              y -= height;
              return <rect class={`is-${status}`} x={`${(index + 0.08) * width}%`} y={y} width={`${width * 0.84}%`} height={height} fill="var(--b)" opacity={status === 'completed' ? 0.55 : 0.95} rx="1" />;
            })}
          </g>
        );
      })}
      {brush && (
        <g>
          <rect x={`${Math.min(...brush) * 100}%`} y="0" width={`${Math.abs(brush[1]! - brush[0]!) * 100}%`} height={HEIGHT} fill="var(--accent)" opacity=".12" />
          {brush.map((x) => (
            <line x1={`${x * 100}%`} x2={`${x * 100}%`} y1="0" y2={HEIGHT} stroke="var(--accent)" />
          ))}
        </g>
      )}
      {data &&
        labels.map((x) => (
          <text x={`${x * 100}%`} y={HEIGHT + 16} text-anchor={x === 0 ? 'start' : x === 1 ? 'end' : 'middle'}>
            {to - from > 2 * 86_400_000 ? local(from + x * (to - from), 0).slice(5, 16) : clock(from + x * (to - from)).slice(0, 5)}
          </text>
        ))}
    </svg>
  );
}
